/* Blocks of well-known models, as settings of the program's options: --preset. */
#ifndef PRESET_H
#define PRESET_H

#include <stdint.h>

/* The name of preset i, NULL after the last, and what it sets: words of the form option=value. */
const char *preset_name(int64_t i);
const char *preset_settings(int64_t i);

#endif
