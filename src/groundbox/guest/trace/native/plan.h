/* The plan of a program (plan.py) as C structures, looked up by the address of a code object. */
#ifndef GROUNDBOX_PLAN_H
#define GROUNDBOX_PLAN_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* In the order of plan.py and units.py. */
enum code_kind { MODULE, FUNCTION, CLASS, GENERATOR, TRANSPARENT };
enum where { LOCAL, FREE, SPACE, GLOBAL };
enum leaving { NOT_AN_EXIT, RETURNS, YIELDS };
enum item_step { CONSTANT, VALUE_OF, ANY };
enum { CODE_UNIT = 2 };
enum mark { MARK_START = 1, MARK_QUIET = 2, MARK_HIDDEN = 4 };
/* What a way of a branch says of its loop (branches.py). */
enum does { NOTHING, TAKES, BEGINS, ENDS };

typedef struct {
    PyObject *name;
    enum where where;
    /* Of localsplus, for LOCAL and FREE; else, or if it is not there, -1. */
    int slot;
    /* Where the last told value is kept: a place of the frame's own, of the owner's for a FREE one, or -1. */
    int place, owner_place;
    struct Code *owner;
    /* A place among the program's globals, or -1. */
    int global;
} Name;

typedef struct {
    int count;
    Name *of;
} Names;

typedef struct {
    bool attribute;
    enum item_step item;
    /* The attribute's name, or the constant. */
    PyObject *value;
    /* For VALUE_OF. */
    Name name;
} Step;

typedef struct {
    Name root;
    int count;
    Step *steps;
} Path;

typedef struct {
    bool calls, has_first;
    /* The last step of the path, or its root, is what the line itself sets, and leads to the new value. */
    bool in_place;
    Path path, first;
} Effect;

typedef struct {
    bool known;
    Names names, last_names, roots;
    /* Anything may change: there are no effects listed. */
    bool any_effect;
    int effect_count;
    Effect *effects;
    bool loops;
    int loop_first, loop_last;
    /* Whether a `yield` is in the loop. */
    bool loop_gives;
    /* Which loop of its code object it is. */
    int loop;
} Line;

typedef struct {
    /* Of the operand: 1 or 0, or -1 if nothing is said. */
    int truth;
    enum does does;
} Way;

/* A conditional jump (branches.py). */
typedef struct {
    int falls_to;
    /* The operand's range, as in JSON. */
    PyObject *at;
    int loop;
    /* When it falls through, and when it jumps. */
    Way ways[2];
} Branch;

/* A loop whose iterations are counted. */
typedef struct {
    int line, header_last, inner;
    Names targets;
} CountedLoop;

/* An instruction where loops without a test begin an iteration: the place of the first, in `Code.headed`. */
typedef struct {
    int offset, count;
    int *loops;
} Head;

/* A jump after which some of a head's loops go on within their iteration. */
typedef struct {
    int offset, within;
} Source;

typedef struct Code {
    PyCodeObject *code;
    enum code_kind kind;
    /* JSON of the qualified name. */
    PyObject *name;
    Names parameters, variables, shared;
    /* Of `variables`, those that are FREE or GLOBAL. */
    Names outer;
    /* Places for last told values: of the variables, then of names that inner functions rebind. */
    int place_count;
    PyObject **extra_names;
    int first_line, line_count, loop_count;
    Line *lines;
    Line blank;
    int unit_count;
    /* By code unit: enum leaving, and enum mark. */
    unsigned char *exits, *marks;
    /* `hides`: some of its instructions are hidden. */
    bool folds, hides, is_body;
    /* By code unit: 1 more than the place in `branches`, or 0. */
    unsigned short *branch_units;
    int branch_count, counted_count, head_count, source_count;
    Branch *branches;
    CountedLoop *counted;
    Head *heads;
    Source *sources;
    /* How often it was recorded before soft_events. */
    int recorded;
} Code;

typedef struct {
    int count;
    Code *codes;
    size_t mask;
    Code **table;
    Names globals;
    bool holds;
    /* Keeps alive all objects that the structures point to. */
    PyObject *program;
    void *chunks;
} Plan;

/* Fills `plan` from a `plan.Program`. On failure an exception is set. */
bool plan_read(Plan *plan, PyObject *program);
void plan_free(Plan *plan);

static inline Code *plan_of(const Plan *plan, PyCodeObject *code)
{
    for (size_t at = ((uintptr_t)code >> 4) & plan->mask;; at = (at + 1) & plan->mask) {
        Code *found = plan->table[at];
        if (!found || found->code == code)
            return found;
    }
}

static inline const Line *plan_line(const Code *code, int number)
{
    int at = number - code->first_line;
    return at >= 0 && at < code->line_count && code->lines[at].known ? &code->lines[at] : &code->blank;
}

/* The conditional jump at an offset, or NULL. */
static inline const Branch *branch_at(const Code *code, int offset)
{
    int unit = offset / CODE_UNIT;
    if (!code->branch_count || unit < 0 || unit >= code->unit_count || !code->branch_units[unit])
        return NULL;
    return &code->branches[code->branch_units[unit] - 1];
}

static inline const Head *head_at(const Code *code, int offset)
{
    for (int i = 0; i < code->head_count; i++)
        if (code->heads[i].offset == offset)
            return &code->heads[i];
    return NULL;
}

static inline const Source *source_at(const Code *code, int offset)
{
    for (int i = 0; i < code->source_count; i++)
        if (code->sources[i].offset == offset)
            return &code->sources[i];
    return NULL;
}

static inline enum leaving exit_at(const Code *code, int offset)
{
    int unit = offset / CODE_UNIT;
    return unit >= 0 && unit < code->unit_count ? code->exits[unit] : NOT_AN_EXIT;
}

static inline bool has_mark(const Code *code, int offset, enum mark mark)
{
    int unit = offset / CODE_UNIT;
    return offset >= 0 && unit < code->unit_count && (code->marks[unit] & mark);
}

#endif
