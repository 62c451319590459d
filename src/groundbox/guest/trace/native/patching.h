/* Small changes of lists, dicts and sets: told, and made in the shadow, too, which is not taken anew then. */
#ifndef GROUNDBOX_PATCHING_H
#define GROUNDBOX_PATCHING_H

#include <stdbool.h>

#include "heap.h"

/* Whether the difference between an entry's shadow and its contents now was a small one, and is told. */
bool patch(Entry *entry);

#endif
