#!/bin/bash
%%{directives}

# One xmcap process per task. After exit code 75 or a death by a signal the job is requeued.
set -uo pipefail
restarts=%%{restart}
command=(
%%{command}
)

# The warning before the time limit goes only to the tasks; scancel and preemptions may reach this shell too, which
# waits for the tasks to save.
trap : TERM

# When one task has ended, the others get two minutes. Since SLURM 22.05, srun does not inherit the CPUs of a task.
srun --label --kill-on-bad-exit=0 --wait=120 \
  ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} "${command[@]}"
code=$?

if ((code == 0)); then
  exit 0
fi
if [[ "$(scontrol --oneliner show job "$SLURM_JOB_ID")" == *JobState=CANCELLED* ]]; then
  echo "xmcap: cancelled: not requeued"
  exit "$code"
fi
if ((code != 75 && code <= 128)); then
  echo "xmcap: failed with exit code $code: not requeued"
  exit "$code"
fi
if ((${SLURM_RESTART_COUNT:-0} >= restarts)); then
  echo "xmcap: ended with exit code $code after $restarts restarts: not requeued"
  exit "$code"
fi
echo "xmcap: ended with exit code $code: requeued"
scontrol requeue "$SLURM_JOB_ID"
exit "$code"
