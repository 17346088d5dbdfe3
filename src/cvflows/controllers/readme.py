"""The README.md of an artefact: what it is, and how it is called from C, C++, Python and ROS 2."""

from __future__ import annotations

import numpy as np

from cvflows.controllers.plan import Plan
from cvflows.controllers.status import Status

PAGE = """# A safe controller: {task}

Written by `cvflows export` from a run of {method}. One observation of {obs} numbers in, one action of {act} numbers in
[-1,1] out, in the order and units of the environment `{environment}`.

What is allowed: {words}

| file | what |
|---|---|
| `controller.c`, `controller.h` | the controller: C99 or C++, only libm, no allocation, no global state |
| `controller.json` | the same as data, with constraint, versions and fingerprint: what `cv.Controller` reads |
| `parity.json` | inputs, actions and statuses to test against; strings stand for NaN and infinity |
| `controller.onnx` | where it was asked for: `observation` → `action`, and whether it is `allowed`; no fallback |

## What is promised

Every status but `CV_UNSAFE` promises: every row of the constraint, computed in double precision on the very float
numbers of the action and at the observation that was passed, is at most 1e-6. The policy's action is checked like any
other{corrected}. The promise is about the constraint as it was exported, and about the observation: a sensor that is
wrong but plausible makes it worthless, and so does an action that arrives late. Clock and watchdog are yours.

| status | meaning |
|---|---|
{statuses}

Fallbacks are tried in this order, each checked at the observation that was passed: {order}. Where an entry that the
constraint reads is NaN, nothing can be checked: the status is `CV_UNSAFE`, and the action is {first}. Where everything
known is forbidden, `CV_UNSAFE` comes with the one, the policy's included, whose violation Σ max(row, 0) is least. Stop
the robot by means of its own then.

{limits}

## C and C++

    cc -std=c99 -O2 -c controller.c        # or: g++ -O2 -x c++ -c controller.c; link with -lm; no -ffast-math

```c
#include "controller.h"

cv_state state;                            /* one per control loop, {bytes} bytes or so */
float obs[CV_OBS], action[CV_ACT];

cv_init(&state);
state.max_age = 0.02;                      /* observations older than 20 ms are stale; 0: no clock */
for (;;) {{
    state.measured = read_sensors(obs);    /* your time of measurement, in seconds */
    state.now = now();
    cv_status status = cv_act(&state, obs, action);
    if (status == CV_UNSAFE) {{
        stop_the_robot();                  /* nothing is known to be allowed */
        break;
    }}
    if (now() > deadline) {{                /* your deadline; the fallback costs less than the policy */
        status = cv_fallback(&state, obs, action);
    }}
    send(action);
    feed_the_watchdog();
}}
```

## Python, without JAX

```python
import cvflows as cv

controller = cv.Controller.load("this folder")
action, status, used = controller.act(observation)
```

Through the C library: `cc -std=c99 -O2 -shared -fPIC controller.c -o controller.so -lm`, then

```python
import ctypes

library = ctypes.CDLL("./controller.so")
state = ctypes.create_string_buffer(4096)  # a cv_state and room to spare
obs, action = (ctypes.c_float * {obs})(), (ctypes.c_float * {act})()
library.cv_init(state)
status = library.cv_act(state, obs, action)
```

## ROS 2

A `ros2_control` controller, as a skeleton: chain it in front of the hardware's command interfaces. Neither compiled nor
tested here.

```cpp
#include <controller_interface/controller_interface.hpp>
#include "controller.h"

class SafeController : public controller_interface::ControllerInterface {{
  cv_state state_{{}};

  CallbackReturn on_activate(const rclcpp_lifecycle::State &) override {{
    cv_init(&state_);
    state_.max_age = 0.02;
    return CallbackReturn::SUCCESS;
  }}

  controller_interface::return_type update(const rclcpp::Time & time, const rclcpp::Duration &) override {{
    float obs[CV_OBS], action[CV_ACT];
    for (int i = 0; i < CV_OBS; i++) obs[i] = static_cast<float>(state_interfaces_[i].get_value());
    state_.now = time.seconds();
    state_.measured = measured_.seconds();            // of your sensors, on the same clock
    const cv_status status = cv_act(&state_, obs, action);
    if (status == CV_UNSAFE) return controller_interface::return_type::ERROR;
    for (int i = 0; i < CV_ACT; i++) command_interfaces_[i].set_value(action[i]);
    return controller_interface::return_type::OK;
  }}
}};
```

## Checking it

    cvflows check THIS_FOLDER

compiles the code with warnings as errors, repeats `parity.json`, and tries random, extreme and broken inputs.
"""
WORDS = {"last": "the last allowed action", "anchor": "an inner point of the set at this context"}


def readme(plan: Plan) -> str:
    """The page of one controller."""
    about = plan.about
    fixed = f"the fixed action ({', '.join(f'{value:g}' for value in plan.fixed)})"
    order = [WORDS.get(name, fixed) for name in plan.order]
    limited = np.flatnonzero(np.isfinite(plan.low) | np.isfinite(plan.high)).tolist()
    ranges = "\n".join(f"- entry {index}: {plan.low[index]:g} to {plan.high[index]:g}" for index in limited)
    certified = about["certified"]
    return PAGE.format(
        task=about["task"],
        method=about["method"],
        environment=about["environment"],
        obs=plan.network.inputs,
        act=len(plan.fixed),
        words=about["constraint_words"],
        corrected=": its map makes it allowed by construction, and the check is made all the same"
        if certified
        else "; nothing makes it allowed by construction, so that the fallback is used wherever it is not",
        statuses="\n".join(f"| `CV_{one.name}` = {one.value} | {_meaning(one)} |" for one in Status),
        order=", ".join(order),
        first=order[0] if plan.order[0] != "last" else f"{order[0]}, or before the first, {order[1]}",
        limits=f"Limits of the inputs:\n\n{ranges}" if limited else "The inputs have no limits but to be finite.",
        bytes=8 * (8 + (len(plan.fixed) + 1) // 2),
    )


def _meaning(status: Status) -> str:
    return {
        Status.OK: "the policy's action",
        Status.FALLBACK_INPUT: "an entry is NaN or infinite; a fallback",
        Status.FALLBACK_RANGE: "an entry is beyond its limits; a fallback",
        Status.FALLBACK_STALE: "the observation is older than `max_age`, or from the future; a fallback",
        Status.FALLBACK_CHECK: "the policy's action is not allowed; a fallback",
        Status.FALLBACK_ASKED: "`cv_fallback` was called",
        Status.UNSAFE: "nothing is known to be allowed; the least bad action",
    }[status]
