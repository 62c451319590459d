/* Objects with an identity: labels, shadows, descriptions and changes.
 *
 * **Labels.** An object gets the next label when it is first seen. New objects are found depth first, parts in the order
 * in which they are shown; labels are given going down, `object` records are written coming up. Parts that are not shown
 * (elided) are not visited. One event describes at most 2,000 objects: later ones get a label and a record that shows
 * nothing, and are not entered. The parts of a set are visited in the set's own order.
 *
 * **Shadows.** Each object's contents, as last told, are kept (`Contents`). Comparing goes by the identity of the
 * items. `heap_check` tells the differences of some objects; `heap_walk` of everything that can be reached from some
 * roots: by current contents, tuples, frozensets and bound methods looked through, an instance's class and the classes
 * that a class is derived from included, objects without a label passed over. Both tell in the order of labels, but for
 * objects that only new ones lead to, which come last.
 *
 * **Life.** Labelled objects are kept alive, so that no address is used twice. When there are twice as many as after the
 * last sweep (at first 10,000), those that only this table holds are dropped.
 */
#ifndef GROUNDBOX_HEAP_H
#define GROUNDBOX_HEAP_H

#include <Python.h>
#include <stdbool.h>

#include "contents.h"
#include "kinds.h"

typedef struct {
    PyObject *value;
    const Kind *kind;
    long long label;
    unsigned long long stamp;
    /* NULL while it is being described. */
    Contents *shadow;
} Entry;

typedef struct {
    /* By address of the object. */
    Entry **table;
    size_t mask, used;
    /* In the order of labels. */
    Entry **entries;
    size_t count, room;
    long long labels;
    int new_ones;
    unsigned long long stamp;
    size_t sweep_at;
} Heap;

bool heap_open(Heap *heap);
void heap_close(Heap *heap);
/* An event begins: 2,000 objects may be described. */
void heap_begin(void);
Entry *heap_find(PyObject *value);
/* Writes `{"ref":n}` at the end of core.text, after describing the object if it is new. */
void heap_write_ref(PyObject *value, const Kind *kind);
/* Whether a labelled object with 16 parts at most is no longer as it was told; of larger ones that is not asked. */
bool heap_has_changed(PyObject *value);
/* Tell what changed in those of the objects that are labelled, in the order of their labels. */
void heap_check(PyObject *const *values, Py_ssize_t count);
/* Tell what changed in anything that can be reached from the roots, which the caller keeps alive. */
void heap_walk(PyObject *const *roots, Py_ssize_t count);
/* Tell what changed in any labelled object. */
void heap_check_all(void);

#endif
