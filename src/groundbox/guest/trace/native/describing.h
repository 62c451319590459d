/* The `object` record of an object, and the fields that a `replace` shares with it. */
#ifndef GROUNDBOX_DESCRIBING_H
#define GROUNDBOX_DESCRIBING_H

#include "contents.h"
#include "heap.h"

enum { MANY = 200, HEAD = 150, TAIL = 20 };

/* Records begin and end so; between, their text is at the end of core.text. */
size_t record_begin(void);
void record_end(size_t start);

void describe_object(const Entry *entry, const Contents *contents);
/* Of an object beyond the number that one event may describe: nothing shown, all counted. */
void describe_stub(const Entry *entry, const Contents *contents);
/* The contents as fields, each with a comma before it. */
void write_fields(const Entry *entry, const Contents *contents);

#endif
