/* Settings of several options at once: --preset, blocks of well-known models, and --recipe. */
#ifndef PRESET_H
#define PRESET_H

#include <stdint.h>

/* The name of preset i, NULL after the last, and what it sets: words of the form option=value. */
const char *preset_name(int64_t i);
const char *preset_settings(int64_t i);

/* The same of recipe i. It may name a preset: preset=NAME. */
const char *recipe_name(int64_t i);
const char *recipe_settings(int64_t i);

#endif
