/* What changed in an object, as `mutate` records (changes.py). */
#ifndef GROUNDBOX_CHANGES_H
#define GROUNDBOX_CHANGES_H

#include "contents.h"
#include "heap.h"

/* Tells the difference between the entry's shadow and its contents now. */
void tell_change(const Entry *entry, const Contents *now);

#endif
