"""The parts of `controller.c` and `controller.h` that are the same for every controller."""

from __future__ import annotations

HEADER = """/* A safe controller, written by `cvflows export`. Do not edit: export it again.
{about}
 *
 * Every status but CV_UNSAFE promises that every row of the constraint, computed in double precision on the float
 * action and at the observation that was passed, is at most 1e-6.
 *
 * One cv_state per control loop; calls with different states may run at the same time. Nothing is allocated, nothing
 * blocks, and every call takes about the same time. Do not compile with -ffast-math: it removes checks for NaN.
 */
#ifndef CV_CONTROLLER_H
#define CV_CONTROLLER_H

#define CV_OBS {obs}
#define CV_ACT {act}

#ifdef __cplusplus
extern "C" {{
#endif

typedef enum cv_status {{
{statuses}
}} cv_status;

typedef enum cv_used {{
{used}
}} cv_used;

typedef struct cv_state {{
    /* Written by the caller before a call, in any unit of time. An observation that was measured more than max_age
     * before now, or after it, is stale. max_age = 0 looks at no clock. */
    double now, measured, max_age;
    /* Written by the controller. */
    float last[CV_ACT];     /* the last allowed action, where has_last */
    int has_last;
    cv_used used;           /* where the action of the last call came from */
    cv_status reason;       /* as the status, but for CV_UNSAFE: why the policy's action was not used */
    unsigned long calls, fallbacks, unsafe; /* counts, which wrap around */
}} cv_state;

/* An empty state: no last action, no clock. */
void cv_init(cv_state *state);

/* The action at an observation. */
cv_status cv_act(cv_state *state, const float obs[CV_OBS], float action[CV_ACT]);

/* The fallback at an observation, without asking the policy: for a missed deadline, a watchdog, an operator's stop.
 * CV_FALLBACK_ASKED, or CV_UNSAFE. */
cv_status cv_fallback(cv_state *state, const float obs[CV_OBS], float action[CV_ACT]);

/* The largest row of any action at an observation, NaN where it is not defined: allowed means at most 1e-6. */
double cv_largest_row(const float obs[CV_OBS], const float action[CV_ACT]);

#ifdef __cplusplus
}}
#endif
#endif
"""

CODE = """/* A safe controller, written by `cvflows export`. Do not edit: export it again.
{about}
 */
#include "controller.h"

#include <math.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "-ffast-math removes checks for NaN: compile without it"
#endif

#define CV_CONTEXT {context}
#define CV_ROWS {rows}
#define CV_TOLERANCE {tolerance}
#define CV_FURTHEST {furthest}

{low}
{high}
{fixed}
{helpers}
{programs}

static void cv_layer(const float *weight, const float *bias, const double *x, int inputs, int outputs, double *y)
{{
    int i, j;
    for (j = 0; j < outputs; j++) {{
        y[j] = bias[j];
    }}
    for (i = 0; i < inputs; i++) {{
        const double value = x[i];
        for (j = 0; j < outputs; j++) {{
            y[j] += value * weight[j];
        }}
        weight += outputs;
    }}
}}

{network}

static int cv_is_finite(double x)
{{
    return x - x == 0.0;
}}

static void cv_copy(const float *from, float *to)
{{
    int i;
    for (i = 0; i < CV_ACT; i++) {{
        to[i] = from[i];
    }}
}}

static void cv_widen(const float *obs, double *seen)
{{
    int i;
    for (i = 0; i < CV_OBS; i++) {{
        seen[i] = obs[i];
    }}
}}

/* To single precision; 0 where an entry is no number that an action could be. */
static int cv_round(const double *a, float *action)
{{
    int i;
    for (i = 0; i < CV_ACT; i++) {{
        if (!(fabs(a[i]) <= CV_FURTHEST)) {{
            return 0;
        }}
        action[i] = (float)a[i];
    }}
    return 1;
}}

/* Whether the context is known at all: what cannot be read allows nothing. */
static int cv_context(const double *seen, double *x)
{{
    int i, known = 1;
    x[0] = 0.0;
    cv_read_context(seen, x);
    for (i = 0; i < {context_count}; i++) {{
        known = known && cv_is_finite(x[i]);
    }}
    return known;
}}

/* The largest row, NaN if any is; *excess becomes the sum of what is above 0, infinite where it is not known. */
static double cv_judge(const double *x, int known, const float *action, double *excess)
{{
    double a[CV_ACT], g[CV_ROWS], largest = -INFINITY, total = 0.0;
    int i;
    *excess = INFINITY;
    if (!known) {{
        return NAN;
    }}
    for (i = 0; i < CV_ACT; i++) {{
        a[i] = action[i];
    }}
    cv_rows(x, a, g);
    for (i = 0; i < CV_ROWS; i++) {{
        if (g[i] != g[i]) {{
            return NAN;
        }}
        largest = g[i] > largest ? g[i] : largest;
        total += g[i] > 0.0 ? g[i] : 0.0;
    }}
    *excess = total;
    return largest;
}}

static cv_status cv_examine(const cv_state *state, const float *obs)
{{
    int i;
    for (i = 0; i < CV_OBS; i++) {{
        if (!cv_is_finite(obs[i])) {{
            return CV_FALLBACK_INPUT;
        }}
    }}
    for (i = 0; i < CV_OBS; i++) {{
        if (obs[i] < cv_low[i] || obs[i] > cv_high[i]) {{
            return CV_FALLBACK_RANGE;
        }}
    }}
    if (state->max_age > 0.0) {{
        const double age = state->now - state->measured;
        if (!(age >= 0.0 && age <= state->max_age)) {{
            return CV_FALLBACK_STALE;
        }}
    }}
    return CV_OK;
}}

static cv_status cv_finish(cv_state *state, const float *chosen, cv_used used, cv_status status, float *action)
{{
    cv_copy(chosen, action);
    if (status != CV_UNSAFE) {{
        cv_copy(chosen, state->last);
        state->has_last = 1;
    }}
    state->used = used;
    state->calls++;
    state->fallbacks += status != CV_OK;
    state->unsafe += status == CV_UNSAFE;
    return status;
}}

/* The first known action that is allowed; if none is, the one with the smallest violation. */
static cv_status cv_replace(cv_state *state, const double *x, int readable, const float *policy, float *action)
{{
    float known[{candidates}][CV_ACT];
    cv_used used[{candidates}];
    double inner[CV_ACT], excess, least = INFINITY;
    int i, count = 0, best = 0;
    (void)inner;
{known}
    for (i = 0; i < count; i++) {{
        if (cv_judge(x, readable, known[i], &excess) <= CV_TOLERANCE) {{
            return cv_finish(state, known[i], used[i], state->reason, action);
        }}
    }}
    if (policy) {{
        cv_copy(policy, known[count]);
        used[count++] = CV_USED_POLICY;
    }}
    for (i = 0; i < count; i++) {{
        (void)cv_judge(x, readable, known[i], &excess);
        if (excess < least) {{
            least = excess;
            best = i;
        }}
    }}
    for (i = 0; i < CV_ACT; i++) {{
        known[best][i] = known[best][i] > 1.0f ? 1.0f : known[best][i] < -1.0f ? -1.0f : known[best][i];
    }}
    return cv_finish(state, known[best], used[best], CV_UNSAFE, action);
}}

void cv_init(cv_state *state)
{{
    int i;
    state->now = state->measured = state->max_age = 0.0;
    for (i = 0; i < CV_ACT; i++) {{
        state->last[i] = 0.0f;
    }}
    state->has_last = 0;
    state->used = CV_USED_FIXED;
    state->reason = CV_OK;
    state->calls = state->fallbacks = state->unsafe = 0;
}}

cv_status cv_act(cv_state *state, const float obs[CV_OBS], float action[CV_ACT])
{{
    double seen[CV_OBS], x[CV_CONTEXT], output[{outputs}], a[CV_ACT], excess;
    float asked[CV_ACT];
    int usable = 0, readable;
    state->reason = cv_examine(state, obs);
    cv_widen(obs, seen);
    readable = cv_context(seen, x);
    if (state->reason == CV_OK) {{
        cv_actor(seen, output);
        cv_decode(output, seen, a);
        usable = cv_round(a, asked);
        if (usable && cv_judge(x, readable, asked, &excess) <= CV_TOLERANCE) {{
            return cv_finish(state, asked, CV_USED_POLICY, CV_OK, action);
        }}
        state->reason = CV_FALLBACK_CHECK;
    }}
    return cv_replace(state, x, readable, usable ? asked : 0, action);
}}

cv_status cv_fallback(cv_state *state, const float obs[CV_OBS], float action[CV_ACT])
{{
    double seen[CV_OBS], x[CV_CONTEXT];
    int readable;
    state->reason = CV_FALLBACK_ASKED;
    cv_widen(obs, seen);
    readable = cv_context(seen, x);
    return cv_replace(state, x, readable, 0, action);
}}

double cv_largest_row(const float obs[CV_OBS], const float action[CV_ACT])
{{
    double seen[CV_OBS], x[CV_CONTEXT], excess;
    int readable;
    cv_widen(obs, seen);
    readable = cv_context(seen, x);
    return cv_judge(x, readable, action, &excess);
}}
"""
