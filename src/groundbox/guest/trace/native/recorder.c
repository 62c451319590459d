/* What events of the program become which records. Text printed since the last record comes first, always. */
#include "frames.h"

#include "recorder.h"

#include "core.h"
#include "describing.h"
#include "effects.h"
#include "folding.h"
#include "names.h"
#include "printing.h"
#include "values.h"

enum { MOST_ARGS = 32, VISITS_SHOWN = 2, CALLS_SHOWN = 2, RESUMES_SHOWN = 2, NEVER = 1 << 30 };

static struct {
    long long frames, soft_events;
    int folds;
    unsigned long main_thread;
    /* User code has run in a second thread. */
    bool threaded;
    /* What a line has touched, or the roots of a walk; emptied after each use. */
    Objects objects;
} recorder;

bool recorder_open(long long soft_events)
{
    memset(&recorder, 0, sizeof recorder);
    recorder.soft_events = soft_events;
    recorder.main_thread = PyThread_get_thread_ident();
    fold_drop();
    printed_reset();
    return states_open() && names_open();
}

void recorder_close(void)
{
    fold_drop();
    states_close();
    names_close();
    objects_cut(&recorder.objects, 0);
    PyMem_RawFree(recorder.objects.items);
    recorder.objects = (Objects){0};
}

static void begin(void)
{
    printed_flush();
    heap_begin();
}

static void commit(void) { memory_commit(&core.memory); }

static void walk_from_roots(State *state, PyFrameObject *frame)
{
    const Line *line = state->line;
    Objects *roots = &recorder.objects;
    for (int i = 0; i < line->roots.count; i++) {
        PyObject *value = value_of(&line->roots.of[i], state->code, frame);
        if (value)
            objects_add(roots, Py_NewRef(value));
    }
    for (int i = 0; i < line->names.count; i++) {
        Told *told = told_of(state, &line->names.of[i]);
        if (told && told->set && told->held && !is_atom_type(Py_TYPE(told->held)))
            objects_add(roots, Py_NewRef(told->held));
    }
    for (Py_ssize_t i = 0; i < state->back.count; i++)
        objects_add(roots, Py_NewRef(state->back.items[i]));
    heap_walk(roots->items, roots->count);
}

static bool changes_objects(const Line *line) { return line->any_effect || line->effect_count; }

static void look_at_objects(State *state, PyFrameObject *frame)
{
    const Line *line = state->line;
    Objects *found = &recorder.objects;
    if (!line->any_effect && effects_touched(line, state->code, frame, found)) {
        heap_check(found->items, found->count);
    } else {
        objects_cut(found, 0);
        walk_from_roots(state, frame);
    }
    objects_cut(found, 0);
}

static void look_in_the_middle(State *state, PyFrameObject *frame)
{
    if (changes_objects(state->line) && !(state->code->kind == CLASS && state->code->hides))
        look_at_objects(state, frame);
}

/* What the frame's present line did. */
static void look(State *state, PyFrameObject *frame, const Names *names)
{
    if (changes_objects(state->line))
        look_at_objects(state, frame);
    look_at_names(state, frame, names);
}

/* The nearest user frame outside this activation, or NULL. */
static State *outside(const Activation *activation, PyFrameObject **frame)
{
    for (activation = activation->previous; activation; activation = activation->previous) {
        *frame = activation_frame(activation);
        Code *code = *frame ? plan_of(&core.plan, activation_code(activation)) : NULL;
        State *state = code ? state_of(*frame, code) : NULL;
        if (state)
            return state;
    }
    return NULL;
}

/* Variables of the frames outside that functions in them rebind; and, `within`, of this frame. */
static void look_outside(PyFrameObject *frame, bool within)
{
    PyFrameObject *around = frame;
    Code *code = within ? plan_of(&core.plan, frame_code(frame)) : NULL;
    State *own = code ? state_of(frame, code) : NULL;
    if (own)
        look_at_names(own, frame, &own->code->shared);
    for (State *state; (state = outside(around->f_frame, &around));)
        look_at_names(state, around, &state->code->shared);
}

static void tell_value(const State *state, const char *kind, PyObject *value)
{
    size_t start = record_begin();
    text_literal(&core.text, "{\"k\":\"");
    text_bytes(&core.text, kind, strlen(kind));
    text_literal(&core.text, "\",\"f\":");
    text_int(&core.text, state->f);
    text_literal(&core.text, ",\"n\":");
    text_int(&core.text, state->n);
    if (value) {
        text_literal(&core.text, ",\"v\":");
        write_value(value, 0);
    }
    text_char(&core.text, '}');
    record_end(start);
}

/* The fold's record, and the objects that it changed. */
static void tell_end_of_fold(State *state)
{
    begin();
    tell_fold();
    state->folds = ++recorder.folds;
    heap_check_all();
}

/* The fold that rests is over, since `frame` goes on, or nobody does. */
static void leave_fold(PyFrameObject *frame)
{
    State *state = fold.state, *driver = state->parent;
    PyFrameObject *generator = (PyFrameObject *)Py_NewRef(fold.rests);
    tell_end_of_fold(state);
    look_at_kept(state, fold.kept);
    look_at_globals(state, generator, driver ? driver->line : NULL);
    state->n = fold.at;
    state->line = plan_line(state->code, fold.at);
    tell_value(state, "yield", fold.value);
    fold_drop();
    if (frame)
        look_outside(frame, true);
    Py_DECREF(generator);
    commit();
}

static void name_module(PyFrameObject *frame)
{
    PyObject *name = PyDict_GetItemString(frame_globals(frame), "__name__");
    if (!name || !PyUnicode_CheckExact(name))
        return;
    Py_XSETREF(core.module_name, Py_NewRef(name));
    if (PyObject_SetAttrString(core.helpers.kinds, "module_name", name) < 0)
        core_fail("the module could not be named");
}

static void write_thread(void)
{
    recorder.threaded = true;
    PyObject *name = core_call(core.helpers.thread_name, NULL, 0);
    text_literal(&core.text, ",\"thread\":");
    if (name && PyUnicode_Check(name))
        text_string(&core.text, name);
    else
        core_fail("a thread could not be named");
    Py_XDECREF(name);
}

static void tell_call(State *state, PyFrameObject *frame)
{
    Text *out = &core.text;
    const Code *code = state->code;
    size_t start = record_begin();
    text_literal(out, "{\"k\":\"call\",\"f\":");
    text_int(out, state->f);
    text_literal(out, ",\"p\":");
    text_int(out, state->parent ? state->parent->f : 0);
    text_literal(out, ",\"name\":");
    text_string(out, code->name);
    text_literal(out, ",\"n\":");
    text_int(out, state->n);
    if (code->parameters.count || code->kind == FUNCTION || code->kind == GENERATOR) {
        text_literal(out, ",\"args\":{");
        write_arguments(state, frame);
        text_char(out, '}');
    } else if (code->kind == CLASS) {
        text_literal(out, ",\"body\":true");
    }
    if (PyThread_get_thread_ident() != recorder.main_thread)
        write_thread();
    text_char(out, '}');
    record_end(start);
}

static bool may_fold(void) { return core.memory.count >= recorder.soft_events && !recorder.threaded; }

static void fold_body(State *state, const PyFrameObject *frame)
{
    Code *code = state->code;
    if (code->recorded >= CALLS_SHOWN && code->folds && may_fold())
        fold_begin(frame, state, state->n, NULL);
    else if (code->recorded < CALLS_SHOWN)
        code->recorded++;
}

void recorder_called(PyFrameObject *frame, Code *code)
{
    if (fold.rests)
        leave_fold(frame);
    begin();
    PyFrameObject *parent_frame;
    State *parent = outside(frame->f_frame, &parent_frame);
    if (parent) {
        parent->drives = 0;
        look_in_the_middle(parent, parent_frame);
    }
    if (code->kind == MODULE && !recorder.frames)
        name_module(frame);
    State *state = state_add(frame, code);
    if (!state)
        return;
    state->f = ++recorder.frames;
    state->folds = recorder.folds;
    state_set_parent(state, parent);
    tell_call(state, frame);
    commit();
    fold_body(state, frame);
}

void recorder_resumed(PyFrameObject *frame, State *state)
{
    if (fold.rests == frame) {
        fold_wake();
        return;
    }
    if (fold.rests)
        leave_fold(frame);
    begin();
    PyFrameObject *parent_frame;
    State *parent = outside(frame->f_frame, &parent_frame);
    state_set_parent(state, parent);
    if (parent)
        look_in_the_middle(parent, parent_frame);
    state->resumes = !parent || parent->drives == state->f ? state->resumes + 1 : 1;
    if (parent)
        parent->drives = state->f;
    state->left = 0;
    size_t start = record_begin();
    text_literal(&core.text, "{\"k\":\"resume\",\"f\":");
    text_int(&core.text, state->f);
    text_literal(&core.text, ",\"p\":");
    text_int(&core.text, parent ? parent->f : 0);
    text_literal(&core.text, ",\"n\":");
    text_int(&core.text, state->n);
    text_char(&core.text, '}');
    record_end(start);
    if (state->folds != recorder.folds) {
        state->folds = recorder.folds;
        look_at_names(state, frame, &state->code->variables);
    }
    commit();
}

/* Counts a visit to a loop's header; gives whether the loop runs unrecorded from here. */
static bool fold_loop(State *state, const PyFrameObject *frame, int number, const Line *line)
{
    int visits = ++state->visits[line->loop];
    if (visits <= VISITS_SHOWN || !may_fold() || (line->loop_gives && (state->resumes < RESUMES_SHOWN || state->resumes >= NEVER)))
        return false;
    commit();
    fold_begin(frame, state, number, line);
    return true;
}

/* A record of a test or an iteration: it does not count towards soft_events. */
static void end_more(size_t start)
{
    core.memory.more++;
    record_end(start);
}

static size_t begin_of_loop(const State *state, const char *kind, int loop, const char *count)
{
    size_t start = record_begin();
    text_literal(&core.text, "{\"k\":\"");
    text_bytes(&core.text, kind, strlen(kind));
    text_literal(&core.text, "\",\"f\":");
    text_int(&core.text, state->f);
    text_literal(&core.text, ",\"n\":");
    text_int(&core.text, state->code->counted[loop].line);
    text_literal(&core.text, ",\"");
    text_bytes(&core.text, count, strlen(count));
    text_literal(&core.text, "\":");
    text_int(&core.text, state->counts[loop]);
    return start;
}

static void tell_ended(const State *state, int loop)
{
    size_t start = begin_of_loop(state, "ended", loop, "iterations");
    text_char(&core.text, '}');
    end_more(start);
}

static void tell_iteration(const State *state, int loop)
{
    size_t start = begin_of_loop(state, "iteration", loop, "number");
    text_char(&core.text, '}');
    end_more(start);
}

/* The iteration that begins after its item was assigned. */
static void tell_item(State *state, PyFrameObject *frame)
{
    int loop = state->begins, known = 0;
    const CountedLoop *counted = &state->code->counted[loop];
    PyObject *values[MOST_ARGS];
    int count = counted->targets.count;
    state->begins = -1;
    for (int i = 0; i < count && count <= MOST_ARGS; i++)
        if ((values[known] = Py_XNewRef(value_of(&counted->targets.of[i], state->code, frame))))
            known++;
    size_t start = begin_of_loop(state, "iteration", loop, "number");
    if (count && known == count) {
        text_literal(&core.text, ",\"items\":[");
        write_values(values, known, 0);
        text_char(&core.text, ']');
    }
    text_char(&core.text, '}');
    end_more(start);
    for (int i = 0; i < known; i++)
        Py_DECREF(values[i]);
}

/* Whether a line is still part of the header whose item is being assigned. */
static bool is_in_header(const State *state, int number)
{
    const CountedLoop *loop = &state->code->counted[state->begins];
    return loop->line < loop->header_last && loop->line <= number && number <= loop->header_last;
}

/* Counts an iteration that begins; the loops inside it begin anew. */
static void count_iteration(State *state, int loop, enum does does)
{
    state->begins = does == TAKES ? loop : -1;
    if (does == ENDS)
        return;
    state->counts[loop]++;
    for (int inner = 1; inner <= state->code->counted[loop].inner; inner++)
        state->counts[loop + inner] = 0;
}

void recorder_branched(PyFrameObject *frame, State *state, const Branch *branch, bool jumped)
{
    Way way = branch->ways[jumped];
    if (fold.going) {
        if (way.does == NOTHING)
            return;
        count_iteration(state, branch->loop, way.does);
        state->begins = -1;
        if (fold.frame == frame && state->code->counted[branch->loop].line == fold.header)
            fold.ended = way.does == ENDS ? branch->loop + 1 : 0;
        return;
    }
    if (fold.rests)
        leave_fold(frame);
    begin();
    if (way.does != NOTHING && state->begins >= 0)
        tell_item(state, frame);
    if (way.truth >= 0) {
        size_t start = record_begin();
        text_literal(&core.text, "{\"k\":\"test\",\"f\":");
        text_int(&core.text, state->f);
        text_literal(&core.text, ",\"at\":[");
        text_bytes(&core.text, PyUnicode_DATA(branch->at), (size_t)PyUnicode_GET_LENGTH(branch->at));
        if (way.truth)
            text_literal(&core.text, "],\"v\":true}");
        else
            text_literal(&core.text, "],\"v\":false}");
        end_more(start);
    }
    if (way.does != NOTHING) {
        count_iteration(state, branch->loop, way.does);
        if (way.does == ENDS)
            tell_ended(state, branch->loop);
        else if (way.does == BEGINS)
            tell_iteration(state, branch->loop);
    }
    commit();
}

/* The loops without a test of which an iteration begins at an offset, from which on in `*first`; or NULL. */
static const Head *headed(State *state, int offset, int *first)
{
    const Head *head = head_at(state->code, offset);
    *first = state->source;
    state->source = 0;
    return head && *first < head->count ? head : NULL;
}

void recorder_pass_line(const PyFrameObject *frame, const Code *code, int offset)
{
    State *state = state_of(frame, code);
    int first;
    const Head *head = state ? headed(state, offset, &first) : NULL;
    for (int i = head ? first : 0; head && i < head->count; i++)
        count_iteration(state, head->loops[i], BEGINS);
}

static void tell_head(State *state, int loop)
{
    count_iteration(state, loop, BEGINS);
    tell_iteration(state, loop);
}

void recorder_line(PyFrameObject *frame, State *state, int number, int offset)
{
    const Line *line = plan_line(state->code, number);
    int own = -1;
    if (fold.rests)
        leave_fold(frame);
    begin();
    look(state, frame, &state->line->names);
    if (state->begins >= 0 && !is_in_header(state, number))
        tell_item(state, frame);
    if (state->code->head_count) {
        int first;
        const Head *head = headed(state, offset, &first);
        for (int i = head ? first : 0; head && i < head->count; i++) {
            if (i == head->count - 1 && state->code->counted[head->loops[i]].line == number)
                own = head->loops[i];
            else
                tell_head(state, head->loops[i]);
        }
    }
    if (line->loops && fold_loop(state, frame, number, line)) {
        if (own >= 0)
            count_iteration(state, own, BEGINS);
        return;
    }
    if (own >= 0)
        tell_head(state, own);
    state->line = line;
    state->n = number;
    objects_cut(&state->back, 0);
    state->left = 0;
    state->drives = 0;
    size_t start = record_begin();
    text_literal(&core.text, "{\"k\":\"line\",\"f\":");
    text_int(&core.text, state->f);
    text_literal(&core.text, ",\"n\":");
    text_int(&core.text, number);
    text_char(&core.text, '}');
    record_end(start);
    commit();
}

static void tell_raise(State *state, PyObject *exception)
{
    Text *out = &core.text;
    PyObject *args = ((PyBaseExceptionObject *)exception)->args;
    Py_ssize_t count = args && PyTuple_Check(args) ? PyTuple_GET_SIZE(args) : 0;
    size_t start = record_begin();
    text_literal(out, "{\"k\":\"raise\",\"f\":");
    text_int(out, state->f);
    text_literal(out, ",\"n\":");
    text_int(out, state->n);
    text_literal(out, ",\"type\":");
    write_class_name(Py_TYPE(exception));
    text_literal(out, ",\"args\":[");
    Py_XINCREF(args);
    write_values(count ? ((PyTupleObject *)args)->ob_item : NULL, count > MOST_ARGS ? MOST_ARGS : count, 0);
    Py_XDECREF(args);
    text_char(out, ']');
    if (state->left && state->left_by == exception) {
        text_literal(out, ",\"from\":");
        text_int(out, state->left);
    }
    text_char(out, '}');
    state->exception = exception;
    state->left = 0;
    record_end(start);
}

void recorder_raised(PyFrameObject *frame, State *state, PyObject *exception, int offset)
{
    if (is_quiet(state->code, exception, offset))
        return;
    state->begins = -1;
    if (fold.rests)
        leave_fold(frame);
    begin();
    look(state, frame, &state->line->names);
    tell_raise(state, exception);
    commit();
}

void recorder_returned(PyFrameObject *frame, State *state, PyObject *value)
{
    if (fold.rests)
        leave_fold(frame);
    begin();
    look(state, frame, &state->line->last_names);
    State *parent = state->parent;
    if (parent && changes_objects(parent->line) && !is_atom_type(Py_TYPE(value)))
        objects_add(&parent->back, Py_NewRef(value));
    /* A class body returns a cell, or None. */
    tell_value(state, "return", state->code->kind == CLASS ? Py_None : value);
    commit();
    state_remove(frame);
}

void recorder_yielded(PyFrameObject *frame, State *state, PyObject *value)
{
    if (fold.rests)
        leave_fold(frame);
    begin();
    look(state, frame, &state->line->names);
    tell_value(state, "yield", value);
    commit();
    state->drives = 0;
}

void recorder_unwound(PyFrameObject *frame, State *state)
{
    if (fold.rests)
        leave_fold(frame);
    begin();
    look(state, frame, &state->line->last_names);
    if (state->parent) {
        state->parent->left = state->f;
        state->parent->left_by = state->exception;
    }
    tell_value(state, "unwind", NULL);
    commit();
    state_remove(frame);
}

void recorder_end_fold(PyFrameObject *frame, State *state)
{
    int at = fold.at, ended = fold.ended;
    bool waits = fold.waits, is_call = fold.is_call;
    PyObject *exception = Py_XNewRef(fold.exception);
    tell_end_of_fold(state);
    fold_drop();
    look_at_names(state, frame, is_call ? &state->code->outer : &state->code->variables);
    look_at_globals(state, frame, NULL);
    look_outside(frame, false);
    state->line = waits ? plan_line(state->code, at) : &state->code->blank;
    state->n = at;
    if (ended)
        tell_ended(state, ended - 1);
    if (exception)
        tell_raise(state, exception);
    Py_XDECREF(exception);
    commit();
}

void recorder_gives(PyFrameObject *frame, State *state, PyObject *value)
{
    if (fold_rest(frame, value))
        return;
    recorder_end_fold(frame, state);
    recorder_yielded(frame, state, value);
    state->resumes = NEVER;
}

void recorder_lost(PyObject *why)
{
    printed_flush();
    memory_lost(&core.memory, why);
}

void recorder_finish(bool ended)
{
    if (fold.rests)
        leave_fold(NULL);
    begin();
    if (fold.going) {
        tell_fold();
        heap_check_all();
    }
    if (ended)
        memory_end(&core.memory);
    else
        commit();
}
