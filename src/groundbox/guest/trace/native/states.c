/* States of frames, in a hash table with chains: they come and go with every call. */
#include "states.h"

#include "core.h"

enum { FIRST_BUCKETS = 256 };

static struct {
    State **buckets;
    size_t mask, count;
} states;

static State **bucket_of(const PyFrameObject *frame)
{
    return &states.buckets[((uintptr_t)frame >> 4) * 0x9e3779b97f4a7c15u >> 32 & states.mask];
}

bool states_open(void)
{
    states.buckets = PyMem_RawCalloc(FIRST_BUCKETS, sizeof *states.buckets);
    states.mask = FIRST_BUCKETS - 1;
    states.count = 0;
    return states.buckets != NULL;
}

void states_close(void)
{
    if (states.buckets)
        states_clear();
    PyMem_RawFree(states.buckets);
    states.buckets = NULL;
}

const char *told_text(const Told *told) { return told->size > SHORT_TEXT ? told->text.there : told->text.here; }

void told_clear(Told *told)
{
    PyObject *held = told->held;
    if (told->set && told->size > SHORT_TEXT)
        PyMem_RawFree(told->text.there);
    told->set = false;
    told->held = NULL;
    Py_XDECREF(held);
}

void told_set(Told *told, PyObject *held, const char *text, size_t size)
{
    PyObject *before = told->held;
    char *place = told->text.here;
    if (told->set && told->size > SHORT_TEXT)
        PyMem_RawFree(told->text.there);
    told->set = false;
    told->held = NULL;
    if (size > SHORT_TEXT)
        place = told->text.there = PyMem_RawMalloc(size);
    if (place) {
        memcpy(place, text, size);
        told->set = true;
        told->size = size;
        told->held = Py_XNewRef(held);
    } else {
        core_fail("there is no memory");
    }
    Py_XDECREF(before);
}

/* Drops one reference, and then those to parents, without recursion: chains of parents may be long. */
static void release(State *state)
{
    while (state && --state->references == 0) {
        State *parent = state->parent;
        for (int i = 0; i < state->code->place_count; i++)
            told_clear(&state->told[i]);
        objects_cut(&state->back, 0);
        PyMem_RawFree(state->back.items);
        PyMem_RawFree(state->visits);
        PyMem_RawFree(state->counts);
        PyMem_RawFree(state);
        state = parent;
    }
}

void state_set_parent(State *state, State *parent)
{
    State *before = state->parent;
    if (parent)
        parent->references++;
    state->parent = parent;
    release(before);
}

State *state_of(const PyFrameObject *frame, const Code *code)
{
    for (State *state = *bucket_of(frame); state; state = state->next)
        if (state->frame == frame)
            return state->code == code ? state : NULL;
    return NULL;
}

void state_remove(const PyFrameObject *frame)
{
    for (State **at = bucket_of(frame); *at; at = &(*at)->next) {
        State *state = *at;
        if (state->frame != frame)
            continue;
        *at = state->next;
        states.count--;
        release(state);
        return;
    }
}

static void grow(void)
{
    size_t mask = states.mask;
    State **before = states.buckets, **larger = PyMem_RawCalloc((mask + 1) * 4, sizeof *larger);
    if (!larger)
        return;
    states.buckets = larger;
    states.mask = (mask + 1) * 4 - 1;
    for (size_t i = 0; i <= mask; i++) {
        for (State *state = before[i], *next; state; state = next) {
            State **bucket = bucket_of(state->frame);
            next = state->next;
            state->next = *bucket;
            *bucket = state;
        }
    }
    PyMem_RawFree(before);
}

State *state_add(const PyFrameObject *frame, Code *code)
{
    state_remove(frame);
    if (states.count > states.mask * 2)
        grow();
    State *state = PyMem_RawCalloc(1, sizeof *state + (size_t)code->place_count * sizeof *state->told);
    int *visits = code->loop_count ? PyMem_RawCalloc((size_t)code->loop_count, sizeof *visits) : NULL;
    int *counts = code->counted_count ? PyMem_RawCalloc((size_t)code->counted_count, sizeof *counts) : NULL;
    if (!state || (code->loop_count && !visits) || (code->counted_count && !counts)) {
        PyMem_RawFree(state);
        PyMem_RawFree(visits);
        PyMem_RawFree(counts);
        core_fail("there is no memory");
        return NULL;
    }
    State **bucket = bucket_of(frame);
    state->frame = frame;
    state->references = 1;
    state->code = code;
    state->line = &code->blank;
    state->n = code->code->co_firstlineno;
    state->raised_at = -1;
    state->visits = visits;
    state->counts = counts;
    state->begins = -1;
    state->next = *bucket;
    *bucket = state;
    states.count++;
    return state;
}

void states_clear(void)
{
    for (size_t i = 0; i <= states.mask; i++) {
        while (states.buckets[i]) {
            State *state = states.buckets[i];
            states.buckets[i] = state->next;
            states.count--;
            release(state);
        }
    }
}
