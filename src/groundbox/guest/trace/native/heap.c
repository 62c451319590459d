/* Objects with an identity: labels by address, and the walks that describe new ones and find changes. */
#include "heap.h"

#include <stdlib.h>

#include "changes.h"
#include "core.h"
#include "describing.h"
#include "patching.h"
#include "values.h"

enum { MOST_NEW = 2000, FIRST_SWEEP = 10000, FIRST_TABLE = 256 };

/* A growing array of borrowed references; those of one walk stand behind those of the walk around it. */
typedef struct {
    PyObject **items;
    size_t count, room;
} Stack;

static bool grow(void *array, size_t *room, size_t size)
{
    size_t wanted = *room ? *room * 2 : 64;
    void *grown = PyMem_RawRealloc(*(void **)array, wanted * size);
    if (!grown)
        return core_fail("there is no memory"), false;
    *(void **)array = grown;
    *room = wanted;
    return true;
}

static void push(Stack *stack, PyObject *value)
{
    if (stack->count < stack->room || grow(&stack->items, &stack->room, sizeof *stack->items))
        stack->items[stack->count++] = value;
}

static void reverse(Stack *stack, size_t from)
{
    for (size_t to = stack->count; to > from + 1; from++) {
        PyObject *item = stack->items[from];
        stack->items[from] = stack->items[--to];
        stack->items[to] = item;
    }
}

static size_t place_of(const Heap *heap, const PyObject *value)
{
    size_t at = ((uintptr_t)value >> 4) * 0x9e3779b97f4a7c15u >> 24 & heap->mask;
    while (heap->table[at] && heap->table[at]->value != value)
        at = (at + 1) & heap->mask;
    return at;
}

bool heap_open(Heap *heap)
{
    *heap = (Heap){.sweep_at = FIRST_SWEEP, .mask = FIRST_TABLE - 1};
    heap->table = PyMem_RawCalloc(FIRST_TABLE, sizeof *heap->table);
    return heap->table != NULL;
}

/* The entry is no longer in the tables: what is freed here may run code of the program. */
static void entry_free(Entry *entry)
{
    contents_free(entry->shadow);
    Py_DECREF(entry->value);
    PyMem_RawFree(entry);
}

void heap_close(Heap *heap)
{
    Entry **entries = heap->entries;
    size_t count = heap->count;
    PyMem_RawFree(heap->table);
    *heap = (Heap){0};
    for (size_t i = 0; i < count; i++)
        entry_free(entries[i]);
    PyMem_RawFree(entries);
}

static bool rebuild(Heap *heap, size_t size)
{
    Entry **table = PyMem_RawCalloc(size, sizeof *table);
    if (!table)
        return core_fail("there is no memory"), false;
    PyMem_RawFree(heap->table);
    heap->table = table;
    heap->mask = size - 1;
    for (size_t i = 0; i < heap->count; i++)
        heap->table[place_of(heap, heap->entries[i]->value)] = heap->entries[i];
    return true;
}

/* Drops the objects that only this table holds, children after their parents, which have smaller labels. */
static void sweep(Heap *heap)
{
    size_t kept = 0, count = heap->count, dropped = 0;
    Entry **gone = PyMem_RawMalloc(count * sizeof *gone);
    if (!gone) {
        core_fail("there is no memory");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        Entry *entry = heap->entries[i];
        if (Py_REFCNT(entry->value) == 1) {
            gone[dropped++] = entry;
            Contents *shadow = entry->shadow;
            entry->shadow = NULL;
            contents_free(shadow);
        } else {
            heap->entries[kept++] = entry;
        }
    }
    heap->count = kept;
    rebuild(heap, heap->mask + 1);
    for (size_t i = 0; i < dropped; i++)
        entry_free(gone[i]);
    PyMem_RawFree(gone);
    heap->sweep_at = 2 * kept > FIRST_SWEEP ? 2 * kept : FIRST_SWEEP;
}

void heap_begin(void)
{
    core.heap.new_ones = 0;
    if (core.heap.count > core.heap.sweep_at)
        sweep(&core.heap);
}

Entry *heap_find(PyObject *value) { return core.heap.table[place_of(&core.heap, value)]; }

static Entry *add_entry(Heap *heap, PyObject *value, const Kind *kind)
{
    if (heap->count == heap->room && !grow(&heap->entries, &heap->room, sizeof *heap->entries))
        return NULL;
    if (heap->count * 2 > heap->mask && !rebuild(heap, (heap->mask + 1) * 2))
        return NULL;
    Entry *entry = PyMem_RawMalloc(sizeof *entry);
    if (!entry)
        return core_fail("there is no memory"), NULL;
    *entry = (Entry){.value = Py_NewRef(value), .kind = kind, .label = ++heap->labels};
    heap->table[place_of(heap, value)] = entry;
    heap->entries[heap->count++] = entry;
    return entry;
}

/* Labels a new object. Gives its contents if its parts are to be visited; else it is described already. */
static Contents *add(PyObject *value, const Kind *kind, Entry **added)
{
    Entry *entry = *added = add_entry(&core.heap, value, kind);
    Contents *contents = entry ? contents_take(value, kind) : NULL;
    core.heap.new_ones++;
    if (!contents || core.heap.new_ones <= MOST_NEW)
        return contents;
    describe_stub(entry, contents);
    entry->shadow = contents;
    return NULL;
}

/* Objects that are being described, the innermost last, with what is left of their parts on one stack. */
typedef struct {
    Entry *entry;
    Contents *contents;
    size_t base;
} Going;

typedef struct {
    Going *going;
    size_t count, room;
    Stack parts;
} Description;

static Stack *inner_stack;

static void push_inner(PyObject *value) { push(inner_stack, value); }

/* Pushes what a tuple, frozenset or bound method refers to, so that the first is popped first. */
static void push_parts_of(Stack *stack, PyObject *value, const Kind *kind)
{
    size_t from = stack->count;
    inner_stack = stack;
    inner_objects(value, kind, push_inner);
    reverse(stack, from);
}

static void push_part(Stack *stack, PyObject *value)
{
    if (!is_leaf_type(Py_TYPE(value)))
        push(stack, value);
}

static void push_contents(Stack *stack, const Contents *contents, bool only_shown)
{
    bool cut = only_shown && contents->count > MANY;
    for (Py_ssize_t i = 0; i < contents->count; i++) {
        if (cut && i == HEAD)
            i = contents->count - TAIL;
        if (contents->keys)
            push_part(stack, contents->keys[i]);
        push_part(stack, contents->items[i]);
    }
    if (contents->extra)
        push_contents(stack, contents->extra, only_shown);
}

static void enter(Description *description, Entry *entry, Contents *contents, const Kind *kind)
{
    if (description->count == description->room &&
        !grow(&description->going, &description->room, sizeof *description->going)) {
        entry->shadow = contents;
        return;
    }
    size_t base = description->parts.count;
    description->going[description->count++] = (Going){entry, contents, base};
    if (!contents->plain) {
        push_contents(&description->parts, contents, kind->told != SET);
        reverse(&description->parts, base);
    }
}

static void open_part(Description *description, PyObject *part)
{
    Kind *kind = kind_find(Py_TYPE(part));
    Entry *entry;
    if (!kind) {
        core_fail("a type could not be read");
    } else if (kind->told == TUPLE || kind->told == FROZENSET || kind->told == METHOD) {
        push_parts_of(&description->parts, part, kind);
    } else if (kind->told != LEAF && (kind->told != CLASS_OBJECT || kind_is_own((PyTypeObject *)part)) &&
               !heap_find(part)) {
        Contents *contents = add(part, kind, &entry);
        if (contents)
            enter(description, entry, contents, kind);
    }
}

static void describe(PyObject *value, const Kind *kind, Entry **described)
{
    Description description = {0};
    Contents *contents = add(value, kind, described);
    if (contents)
        enter(&description, *described, contents, kind);
    while (description.count) {
        Going *going = &description.going[description.count - 1];
        if (description.parts.count > going->base) {
            open_part(&description, description.parts.items[--description.parts.count]);
            continue;
        }
        description.count--;
        Entry *entry = going->entry;
        contents = going->contents;
        describe_object(entry, contents);
        entry->shadow = contents;
    }
    PyMem_RawFree(description.going);
    PyMem_RawFree(description.parts.items);
}

void heap_write_ref(PyObject *value, const Kind *kind)
{
    Entry *entry = heap_find(value);
    if (!entry)
        describe(value, kind, &entry);
    if (!entry)
        return;
    text_literal(&core.text, "{\"ref\":");
    text_int(&core.text, entry->label);
    text_char(&core.text, '}');
}

/* `list.sort` is at work: the list is empty meanwhile, and has room for -1 items. */
static bool is_being_sorted(PyObject *value)
{
    return PyList_Check(value) && ((PyListObject *)value)->allocated < 0;
}

/* Tells what changed. An object that is being described has no shadow yet, and none is looked at. */
static void compare(Entry *entry)
{
    if (!entry->shadow || is_being_sorted(entry->value) || contents_hold(entry->value, entry->kind, entry->shadow) || patch(entry))
        return;
    Contents *now = contents_take(entry->value, entry->kind);
    if (!now)
        return;
    if (contents_same(now, entry->shadow, entry->kind)) {
        contents_free(now);
        return;
    }
    tell_change(entry, now);
    Contents *old = entry->shadow;
    entry->shadow = now;
    contents_free(old);
}

bool heap_has_changed(PyObject *value)
{
    enum { MOST_ITEMS = 16 };
    const Entry *entry = heap_find(value);
    return entry && entry->shadow && entry->shadow->count <= MOST_ITEMS && !is_being_sorted(value) &&
           !contents_hold(value, entry->kind, entry->shadow);
}

static int by_label(const void *one, const void *other)
{
    long long difference = (*(Entry *const *)one)->label - (*(Entry *const *)other)->label;
    return (difference > 0) - (difference < 0);
}

void heap_check(PyObject *const *values, Py_ssize_t count)
{
    enum { MOST_HERE = 16 };
    Entry *here[MOST_HERE], **found = count <= MOST_HERE ? here : PyMem_RawMalloc((size_t)count * sizeof *found);
    size_t labelled = 0;
    if (!found) {
        core_fail("there is no memory");
        return;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if ((found[labelled] = heap_find(values[i])))
            labelled++;
    if (labelled > 1)
        qsort(found, labelled, sizeof *found, by_label);
    for (size_t i = 0; i < labelled; i++)
        compare(found[i]);
    if (found != here)
        PyMem_RawFree(found);
}

void heap_check_all(void)
{
    for (size_t i = 0; i < core.heap.count; i++)
        compare(core.heap.entries[i]);
}

/* Tuples, frozensets and bound methods that a walk has looked through. */
typedef struct {
    PyObject **table;
    size_t count, mask;
} Seen;

static bool see(Seen *seen, PyObject *value)
{
    if (seen->count * 2 >= seen->mask) {
        Seen larger = {.mask = seen->table ? seen->mask * 2 + 1 : 63};
        larger.table = PyMem_RawCalloc(larger.mask + 1, sizeof *larger.table);
        if (!larger.table)
            return core_fail("there is no memory"), false;
        for (size_t i = 0; seen->table && i <= seen->mask; i++)
            if (seen->table[i])
                see(&larger, seen->table[i]);
        PyMem_RawFree(seen->table);
        *seen = larger;
    }
    size_t at = ((uintptr_t)value >> 4) * 0x9e3779b97f4a7c15u >> 24 & seen->mask;
    for (; seen->table[at]; at = (at + 1) & seen->mask)
        if (seen->table[at] == value)
            return false;
    seen->table[at] = value;
    seen->count++;
    return true;
}

/* Class attributes are looked up in the classes that a class is derived from, too. */
static void push_bases(Stack *todo, PyTypeObject *cls)
{
    for (Py_ssize_t i = 1; cls->tp_mro && i < PyTuple_GET_SIZE(cls->tp_mro); i++)
        push(todo, PyTuple_GET_ITEM(cls->tp_mro, i));
}

/* Looks at an object that is labelled, and puts it among those that changed, to be told later in the order of labels. */
static void visit(Stack *todo, Stack *changed, PyObject *value)
{
    Entry *entry = heap_find(value);
    if (!entry || entry->stamp == core.heap.stamp)
        return;
    entry->stamp = core.heap.stamp;
    if (entry->kind->own)
        push(todo, (PyObject *)entry->kind->type);
    if (entry->kind->told == CLASS_OBJECT)
        push_bases(todo, (PyTypeObject *)value);
    if (!entry->shadow)
        return;
    const Contents *inside = entry->shadow;
    Contents *now = NULL;
    if (!is_being_sorted(value) && !contents_hold(value, entry->kind, entry->shadow)) {
        push(changed, value);
        /* Contents of bytes and arrays are made for us: nothing but `now` would keep them alive. */
        if (entry->kind->told < BYTES && (now = contents_take(value, entry->kind)))
            inside = now;
    }
    size_t from = todo->count;
    /* What it held before may have changed, too, and may be reached from no root any more. */
    if (now && !entry->shadow->plain)
        push_contents(todo, entry->shadow, false);
    if (!inside->plain)
        push_contents(todo, inside, false);
    reverse(todo, from);
    contents_free(now);
}

static void visit_all(Stack *todo, Stack *changed, Seen *seen)
{
    while (todo->count && !core.failure) {
        PyObject *value = todo->items[--todo->count];
        Kind *kind = kind_find(Py_TYPE(value));
        /* An exception has no label, but what it was raised with may have one. */
        if (PyExceptionInstance_Check(value) && ((PyBaseExceptionObject *)value)->args)
            push(todo, ((PyBaseExceptionObject *)value)->args);
        if (!kind)
            core_fail("a type could not be read");
        else if (kind->told != TUPLE && kind->told != FROZENSET && kind->told != METHOD)
            visit(todo, changed, value);
        else if (see(seen, value))
            push_parts_of(todo, value, kind);
    }
}

void heap_walk(PyObject *const *roots, Py_ssize_t count)
{
    Stack todo = {0}, changed = {0};
    Seen seen = {0};
    core.heap.stamp++;
    for (Py_ssize_t i = count; i-- > 0;)
        push_part(&todo, roots[i]);
    while (todo.count && !core.failure) {
        visit_all(&todo, &changed, &seen);
        heap_check(changed.items, (Py_ssize_t)changed.count);
        /* What is told now may have been given labels only by that; and it may lead to more. */
        for (size_t i = 0; i < changed.count; i++) {
            const Entry *entry = heap_find(changed.items[i]);
            if (entry && entry->shadow && !entry->shadow->plain)
                push_contents(&todo, entry->shadow, false);
        }
        changed.count = 0;
    }
    PyMem_RawFree(todo.items);
    PyMem_RawFree(changed.items);
    PyMem_RawFree(seen.table);
}
