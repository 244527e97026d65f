/* Whether this processor has the instructions that the program was compiled for. Nothing calls it: it
   looks before main(), and ends the program with status 1 and one line if some are missing, because
   an illegal instruction would end it without a word.

   processor_needs.c is compiled as everything else is, and has data only. processor.c is compiled for
   every processor of its family (see the Makefile), and has the code. */
#ifndef PROCESSOR_H
#define PROCESSOR_H

/* Extensions in the compiler's words, a blank before and after each. */
extern const char processor_needs[];

#endif
