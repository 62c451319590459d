/* Small changes. What is told is what tell_change would tell; it costs no reference to each item that stayed. */
#include "patching.h"

#include "changes.h"
#include "compat.h"
#include "core.h"

enum { FEW = 16, BLOCK = 512 };

/* Strong references to what came, and to what has gone from the shadow when that is done. */
typedef struct {
    Py_ssize_t count, gone_count;
    Py_ssize_t places[FEW];
    PyObject *keys[FEW], *items[FEW], *gone[2 * FEW];
} Few;

static bool add(Few *few, Py_ssize_t place, PyObject *key, PyObject *item)
{
    if (few->count == FEW)
        return false;
    few->places[few->count] = place;
    few->keys[few->count] = Py_XNewRef(key);
    few->items[few->count++] = Py_NewRef(item);
    return true;
}

static bool let_go_of_new(Few *few)
{
    for (Py_ssize_t i = 0; i < few->count; i++) {
        Py_XDECREF(few->keys[i]);
        Py_DECREF(few->items[i]);
    }
    return false;
}

/* This may run finalizers of the program, so the shadow is whole by now. */
static bool let_go_of_old(const Few *few)
{
    for (Py_ssize_t i = 0; i < few->gone_count; i++)
        Py_DECREF(few->gone[i]);
    return true;
}

/* Takes the place of an item in the shadow. */
static void replace(Contents *shadow, Few *few, Py_ssize_t place, PyObject *item)
{
    few->gone[few->gone_count++] = shadow->items[place];
    shadow->items[place] = item;
}

static void heed_new(Contents *shadow, const Few *few)
{
    for (Py_ssize_t i = 0; i < few->count; i++)
        shadow->plain = shadow->plain && is_leaf_type(Py_TYPE(few->items[i])) &&
                        (!few->keys[i] || is_leaf_type(Py_TYPE(few->keys[i])));
}

static Py_ssize_t same_at_begin(PyObject *const *one, PyObject *const *other, Py_ssize_t most)
{
    Py_ssize_t same = 0;
    while (same + BLOCK <= most && !memcmp(one + same, other + same, BLOCK * sizeof *one))
        same += BLOCK;
    while (same < most && one[same] == other[same])
        same++;
    return same;
}

/* `one` and `other` point behind the last item. */
static Py_ssize_t same_at_end(PyObject *const *one, PyObject *const *other, Py_ssize_t most)
{
    Py_ssize_t same = 0;
    while (same + BLOCK <= most && !memcmp(one - same - BLOCK, other - same - BLOCK, BLOCK * sizeof *one))
        same += BLOCK;
    while (same < most && one[-same - 1] == other[-same - 1])
        same++;
    return same;
}

static bool patch_items(Entry *entry, PyObject *const *now)
{
    Contents *shadow = entry->shadow;
    Py_ssize_t count = shadow->count;
    Few few = {0};
    for (Py_ssize_t at = 0; (at += same_at_begin(now + at, shadow->items + at, count - at)) < count; at++)
        if (!add(&few, at, NULL, now[at]))
            return let_go_of_new(&few);
    tell_places(entry, few.places, few.items, few.count);
    heed_new(shadow, &few);
    for (Py_ssize_t i = 0; i < few.count; i++)
        replace(shadow, &few, few.places[i], few.items[i]);
    return let_go_of_old(&few);
}

static bool patch_length(Entry *entry, PyObject *const *now, Py_ssize_t count)
{
    Contents *shadow = entry->shadow;
    Py_ssize_t most = count < shadow->count ? count : shadow->count;
    Py_ssize_t first = same_at_begin(now, shadow->items, most);
    Py_ssize_t last = same_at_end(now + count, shadow->items + shadow->count, most - first);
    Py_ssize_t come = count - first - last, gone = shadow->count - first - last;
    Few few = {0};
    if (come > FEW || gone > FEW || !contents_reserve(shadow, count))
        return false;
    for (Py_ssize_t i = 0; i < come; i++)
        add(&few, first + i, NULL, now[first + i]);
    tell_splice(entry, first, gone, few.items, come);
    heed_new(shadow, &few);
    few.gone_count = gone;
    memcpy(few.gone, shadow->items + first, (size_t)gone * sizeof *few.gone);
    memmove(shadow->items + first + come, shadow->items + first + gone, (size_t)last * sizeof *few.gone);
    memcpy(shadow->items + first, few.items, (size_t)come * sizeof *few.items);
    shadow->count = count;
    return let_go_of_old(&few);
}

static bool patch_list(Entry *entry)
{
    PyObject *const *now = ((PyListObject *)entry->value)->ob_item;
    Py_ssize_t count = PyList_GET_SIZE(entry->value);
    if (count == entry->shadow->count)
        return patch_items(entry, now);
    return patch_length(entry, now, count);
}

/* New values, and new keys behind the old ones. */
static bool patch_dict(Entry *entry)
{
    Contents *shadow = entry->shadow;
    Py_ssize_t count = PyDict_GET_SIZE(entry->value), old_count = shadow->count, position = 0, at = 0;
    PyObject *key, *item;
    Few few = {0};
    if (count < old_count || count > old_count + FEW)
        return false;
    for (; PyDict_Next(entry->value, &position, &key, &item); at++) {
        if (at < old_count && shadow->keys[at] != key)
            return let_go_of_new(&few);
        if ((at >= old_count || shadow->items[at] != item) && !add(&few, at, key, item))
            return let_go_of_new(&few);
    }
    if (!contents_reserve(shadow, count))
        return let_go_of_new(&few);
    tell_pairs_set(entry, few.keys, few.items, few.count);
    heed_new(shadow, &few);
    for (Py_ssize_t i = 0; i < few.count; i++) {
        if (few.places[i] < old_count) {
            replace(shadow, &few, few.places[i], few.items[i]);
            few.gone[few.gone_count++] = few.keys[i];
        } else {
            shadow->keys[shadow->count] = few.keys[i];
            shadow->items[shadow->count++] = few.items[i];
        }
    }
    return let_go_of_old(&few);
}

static bool is_among(PyObject *item, PyObject *const *items, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (items[i] == item)
            return true;
    return false;
}

/* The items that stayed are in the order that they had; where they are not, nothing is found. */
static bool find_in_set(const Contents *shadow, PyObject *value, Few *few)
{
    Py_ssize_t position = 0, at = 0;
    PyObject *item, *gone[FEW];
    Py_hash_t hash;
    while (_PySet_NextEntry(value, &position, &item, &hash)) {
        Py_ssize_t ahead = 0;
        while (at + ahead < shadow->count && ahead <= FEW && shadow->items[at + ahead] != item)
            ahead++;
        if (at + ahead < shadow->count && ahead <= FEW) {
            if (few->gone_count + ahead > FEW)
                return false;
            memcpy(gone + few->gone_count, shadow->items + at, (size_t)ahead * sizeof *gone);
            few->gone_count += ahead;
            at += ahead + 1;
        } else if (!add(few, 0, NULL, item)) {
            return false;
        }
    }
    if (few->gone_count + shadow->count - at > FEW)
        return false;
    for (; at < shadow->count; at++)
        gone[few->gone_count++] = shadow->items[at];
    memcpy(few->gone, gone, (size_t)few->gone_count * sizeof *gone);
    for (Py_ssize_t i = 0; i < few->count; i++)
        if (is_among(few->items[i], few->gone, few->gone_count))
            return false;
    return true;
}

static bool patch_set(Entry *entry)
{
    Contents *shadow = entry->shadow;
    Py_ssize_t count = PySet_GET_SIZE(entry->value), position = 0, at = 0;
    PyObject *item;
    Py_hash_t hash;
    Few few = {0};
    if (count > shadow->count + FEW || shadow->count > count + FEW || !find_in_set(shadow, entry->value, &few) ||
        !contents_reserve(shadow, count))
        return let_go_of_new(&few);
    heed_new(shadow, &few);
    while (at < count && _PySet_NextEntry(entry->value, &position, &item, &hash))
        shadow->items[at++] = item;
    shadow->count = at;
    tell_discarded(entry, few.gone, few.gone_count);
    tell_added(entry, few.items, few.count);
    return let_go_of_old(&few);
}

bool patch(Entry *entry)
{
    const Kind *kind = entry->kind;
    if (entry->shadow->extra || kind->own)
        return false;
    if (kind->told == LIST)
        return kind->base == BASE_LIST && patch_list(entry);
    if (kind->told == DICT)
        return kind->base == BASE_DICT && patch_dict(entry);
    return kind->told == SET && patch_set(entry);
}
