/* What changed in an object, as `mutate` records. Items are compared by identity. */
#include "changes.h"

#include <stdint.h>

#include "core.h"
#include "describing.h"
#include "values.h"

enum { MOST_SET = 16, MOST_TOLD = 100 };

/* A set of keys with the last position of each: of objects by identity, or of names by their text. */
typedef struct {
    PyObject *const *keys;
    Py_ssize_t *positions;
    size_t mask;
    bool names;
} Index;

static size_t mark_of(const Index *index, PyObject *key)
{
    size_t mark = index->names ? (size_t)PyObject_Hash(key) : (uintptr_t)key >> 4;
    return (mark ^ mark >> 16) * 0x9e3779b97f4a7c15u >> 20;
}

static bool same_key(const Index *index, PyObject *one, PyObject *other)
{
    return one == other || (index->names && PyUnicode_Compare(one, other) == 0);
}

static Py_ssize_t *place_of(const Index *index, PyObject *key)
{
    for (size_t at = mark_of(index, key) & index->mask;; at = (at + 1) & index->mask) {
        Py_ssize_t position = index->positions[at];
        if (position < 0 || same_key(index, index->keys[position], key))
            return &index->positions[at];
    }
}

static bool index_open(Index *index, PyObject *const *keys, Py_ssize_t count, bool names)
{
    size_t size = 8;
    while (size < (size_t)count * 2)
        size *= 2;
    *index = (Index){keys, PyMem_RawMalloc(size * sizeof *index->positions), size - 1, names};
    if (!index->positions)
        return core_fail("there is no memory"), false;
    memset(index->positions, 0xff, size * sizeof *index->positions);
    for (Py_ssize_t i = 0; i < count; i++)
        *place_of(index, keys[i]) = i;
    return true;
}

static Py_ssize_t position_of(const Index *index, PyObject *key) { return *place_of(index, key); }

static void index_close(Index *index) { PyMem_RawFree(index->positions); }

static size_t begin(const Entry *entry)
{
    size_t start = record_begin();
    text_literal(&core.text, "{\"k\":\"mutate\",\"id\":");
    text_int(&core.text, entry->label);
    text_literal(&core.text, ",\"op\":");
    return start;
}

static void end(size_t start)
{
    text_char(&core.text, '}');
    record_end(start);
}

static void tell_replace(const Entry *entry, const Contents *now)
{
    size_t start = begin(entry);
    text_literal(&core.text, "\"replace\"");
    write_fields(entry, now);
    end(start);
}

void tell_places(const Entry *entry, const Py_ssize_t *places, PyObject *const *items, Py_ssize_t count)
{
    size_t start = begin(entry);
    text_literal(&core.text, "\"set\",\"at\":[");
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i)
            text_char(&core.text, ',');
        text_char(&core.text, '[');
        text_int(&core.text, places[i]);
        text_char(&core.text, ',');
        write_value(items[i], 0);
        text_char(&core.text, ']');
    }
    text_char(&core.text, ']');
    end(start);
}

static bool tell_set_items(const Entry *entry, const Contents *old, const Contents *now)
{
    Py_ssize_t places[MOST_SET], count = 0;
    PyObject *items[MOST_SET];
    for (Py_ssize_t i = 0; i < now->count; i++) {
        if (old->items[i] == now->items[i])
            continue;
        if (count == MOST_SET)
            return false;
        items[count] = now->items[i];
        places[count++] = i;
    }
    tell_places(entry, places, items, count);
    return true;
}

void tell_splice(const Entry *entry, Py_ssize_t start, Py_ssize_t removed, PyObject *const *items, Py_ssize_t count)
{
    size_t begun = begin(entry);
    text_literal(&core.text, "\"splice\",\"start\":");
    text_int(&core.text, start);
    text_literal(&core.text, ",\"removed\":");
    text_int(&core.text, removed);
    text_literal(&core.text, ",\"items\":[");
    write_values(items, count, 0);
    text_char(&core.text, ']');
    end(begun);
}

static void tell_list(const Entry *entry, const Contents *old, const Contents *now)
{
    if (old->count == now->count && tell_set_items(entry, old, now))
        return;
    Py_ssize_t most = old->count < now->count ? old->count : now->count, first = 0, last = 0;
    while (first < most && old->items[first] == now->items[first])
        first++;
    while (last < most - first && old->items[old->count - 1 - last] == now->items[now->count - 1 - last])
        last++;
    Py_ssize_t come = now->count - last - first;
    if (come > MOST_TOLD) {
        tell_replace(entry, now);
        return;
    }
    tell_splice(entry, first, old->count - last - first, now->items + first, come);
}

static void tell_items(const Entry *entry, const char *opening, PyObject *const *items, Py_ssize_t count)
{
    if (!count)
        return;
    size_t start = begin(entry);
    text_bytes(&core.text, opening, strlen(opening));
    write_sorted(items, count, 0, PY_SSIZE_T_MAX, 0, 0);
    end(start);
}

void tell_added(const Entry *entry, PyObject *const *items, Py_ssize_t count)
{
    tell_items(entry, "\"add\",\"items\":", items, count);
}

void tell_discarded(const Entry *entry, PyObject *const *items, Py_ssize_t count)
{
    tell_items(entry, "\"discard\",\"items\":", items, count);
}

/* The items of `of` that are not in `in`, at most MOST_TOLD + 1 of them; gives their number. */
static Py_ssize_t missing(const Contents *of, const Index *in, PyObject **found)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < of->count && count <= MOST_TOLD; i++)
        if (position_of(in, of->items[i]) < 0)
            found[count++] = of->items[i];
    return count;
}

static void tell_set(const Entry *entry, const Contents *old, const Contents *now)
{
    PyObject *gone[MOST_TOLD + 1], *come[MOST_TOLD + 1];
    Index before, after;
    if (!index_open(&before, old->items, old->count, false))
        return;
    if (index_open(&after, now->items, now->count, false)) {
        Py_ssize_t gone_count = missing(old, &after, gone), come_count = missing(now, &before, come);
        if (gone_count + come_count > MOST_TOLD) {
            tell_replace(entry, now);
        } else {
            tell_discarded(entry, gone, gone_count);
            tell_added(entry, come, come_count);
        }
        index_close(&after);
    }
    index_close(&before);
}

static void write_key(PyObject *key, bool names)
{
    if (names)
        text_string(&core.text, key);
    else
        write_value(key, 0);
}

static void tell_removed(const Entry *entry, PyObject *const *gone, Py_ssize_t count, bool names)
{
    size_t start = begin(entry);
    text_literal(&core.text, "\"remove\",\"at\":[");
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i)
            text_char(&core.text, ',');
        write_key(gone[i], names);
    }
    text_char(&core.text, ']');
    end(start);
}

/* Without `places` the pairs stand one after the other. */
static void tell_set_pairs(const Entry *entry, PyObject *const *keys, PyObject *const *items, const Py_ssize_t *places,
                           Py_ssize_t count, bool names)
{
    size_t start = begin(entry);
    text_literal(&core.text, "\"set\",\"at\":[");
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t place = places ? places[i] : i;
        if (i)
            text_char(&core.text, ',');
        text_char(&core.text, '[');
        write_key(keys[place], names);
        text_char(&core.text, ',');
        write_value(items[place], 0);
        text_char(&core.text, ']');
    }
    text_char(&core.text, ']');
    end(start);
}

void tell_pairs_set(const Entry *entry, PyObject *const *keys, PyObject *const *items, Py_ssize_t count)
{
    tell_set_pairs(entry, keys, items, NULL, count, false);
}

typedef struct {
    PyObject *gone[MOST_TOLD + 1];
    Py_ssize_t gone_count;
    Py_ssize_t places[MOST_TOLD + 1];
    Py_ssize_t place_count;
} Pairs;

/* All keys were there in this order before, and new ones may follow: no key need be looked up. */
static bool only_grown(const Contents *old, const Contents *now)
{
    return old->count <= now->count && !memcmp(old->keys, now->keys, (size_t)old->count * sizeof *old->keys);
}

static void read_grown(const Contents *old, const Contents *now, Pairs *pairs)
{
    for (Py_ssize_t i = 0; i < now->count && pairs->place_count <= MOST_TOLD; i++)
        if (i >= old->count || old->items[i] != now->items[i])
            pairs->places[pairs->place_count++] = i;
}

/* Gives whether removing and then setting leads to the present order. */
static bool read_moved(const Contents *old, const Contents *now, const Index *before, const Index *after, Pairs *pairs)
{
    Py_ssize_t place = 0;
    for (Py_ssize_t i = 0; i < old->count; i++) {
        if (position_of(after, old->keys[i]) >= 0) {
            if (place >= now->count || !same_key(before, old->keys[i], now->keys[place++]))
                return false;
        } else if (pairs->gone_count <= MOST_TOLD) {
            pairs->gone[pairs->gone_count++] = old->keys[i];
        }
    }
    for (Py_ssize_t i = 0; i < now->count; i++) {
        Py_ssize_t known = position_of(before, now->keys[i]);
        if (known >= 0 && i >= place)
            return false;
        if ((known < 0 || old->items[known] != now->items[i]) && pairs->place_count <= MOST_TOLD)
            pairs->places[pairs->place_count++] = i;
    }
    return true;
}

static bool read_pairs(const Contents *old, const Contents *now, bool names, Pairs *pairs)
{
    Index before, after;
    bool ordered = false;
    if (!names && only_grown(old, now))
        return read_grown(old, now, pairs), true;
    if (!index_open(&before, old->keys, old->count, names))
        return false;
    if (index_open(&after, now->keys, now->count, names)) {
        ordered = read_moved(old, now, &before, &after, pairs);
        index_close(&after);
    }
    index_close(&before);
    return ordered;
}

static void tell_pairs(const Entry *entry, const Contents *old, const Contents *now, bool names)
{
    Pairs pairs;
    pairs.gone_count = pairs.place_count = 0;
    if (!read_pairs(old, now, names, &pairs) || pairs.gone_count + pairs.place_count > MOST_TOLD) {
        tell_replace(entry, now);
        return;
    }
    if (pairs.gone_count)
        tell_removed(entry, pairs.gone, pairs.gone_count, names);
    if (pairs.place_count)
        tell_set_pairs(entry, now->keys, now->items, pairs.places, pairs.place_count, names);
}

void tell_change(const Entry *entry, const Contents *now)
{
    const Contents *old = entry->shadow;
    enum told told = entry->kind->told;
    if (told == BYTES || told == ARRAY ||
        (old->extra && now->extra && !contents_same(old->extra, now->extra, entry->kind)))
        tell_replace(entry, now);
    else if (told == LIST)
        tell_list(entry, old, now);
    else if (told == SET)
        tell_set(entry, old, now);
    else
        tell_pairs(entry, old, now, told != DICT);
}
