/* A control loop around an exported controller: read sensors, decide, act, and know what to do when something fails.
 *
 *     cvflows export RUN --out controller
 *     make CONTROLLER=controller
 *     ./robot 1000
 *
 * The sensors are made up, and fail now and then on purpose: an entry is NaN, a message is old, a deadline is missed.
 * Replace read_sensors, send and stop_the_robot by your own. The loop is yours: so are its clock and its watchdog.
 */
#define _POSIX_C_SOURCE 200112L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "controller.h"

#define PERIOD 0.001    /* seconds of a cycle */
#define MAX_AGE 0.002   /* an observation older than two cycles is stale */
#define PATIENCE 20     /* fallbacks in a row after which the robot is stopped */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Fills an observation and returns when it was measured. */
static double read_sensors(long cycle, float obs[CV_OBS])
{
    int i;
    for (i = 0; i < CV_OBS; i++) {
        obs[i] = (float)(0.5 * sin(0.01 * (double)cycle + (double)i));
    }
    if (cycle % 50 == 7) {
        obs[CV_OBS - 1] = NAN;                           /* a broken cable */
    }
    return cycle % 50 == 23 ? now() - 1.0 : now();       /* a message from a second ago */
}

static double sum_sent = 0.0;

static void send(const float action[CV_ACT])
{
    int i;
    for (i = 0; i < CV_ACT; i++) {
        sum_sent += fabs((double)action[i]);
    }
}

static void stop_the_robot(const char *why)
{
    printf("stopped: %s\n", why);
}

int main(int count, char **words)
{
    const long cycles = count > 1 ? atol(words[1]) : 1000;
    long cycle, statuses[CV_UNSAFE + 1] = {0};
    int faults = 0;
    cv_state state;

    cv_init(&state);
    state.max_age = MAX_AGE;
    for (cycle = 0; cycle < cycles; cycle++) {
        const double deadline = now() + PERIOD;
        float obs[CV_OBS], action[CV_ACT];
        cv_status status;

        state.measured = read_sensors(cycle, obs);
        state.now = now();
        status = cv_act(&state, obs, action);

        /* The policy took too long, here only pretended: do not send an action for a moment that is over. */
        if (now() > deadline || cycle % 50 == 41) {
            status = cv_fallback(&state, obs, action);
        }
        statuses[status]++;

        /* Nothing is known to be allowed, as when the constraint's own sensor is broken: brake by other means. One
         * such cycle is answered by the least bad action here; a robot that can stop at once should. */
        faults = status == CV_OK ? 0 : faults + 1;
        if (faults >= PATIENCE) {
            stop_the_robot("too many faults in a row");
            return 1;
        }
        send(action);
        /* Feed the watchdog here, and only here: a loop that hangs, or a controller that never returns, starves it. */
    }
    printf("cycles %ld, ok %ld, input %ld, stale %ld, check %ld, asked %ld, unsafe %ld, mean |action| %.3f\n", cycles,
           statuses[CV_OK], statuses[CV_FALLBACK_INPUT], statuses[CV_FALLBACK_STALE], statuses[CV_FALLBACK_CHECK],
           statuses[CV_FALLBACK_ASKED], statuses[CV_UNSAFE], sum_sent / (double)(cycles * CV_ACT));
    return 0;
}
