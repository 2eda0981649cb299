sbatch <<'XMCAP_SBATCH'
#!/bin/bash
#SBATCH --job-name=bb
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=TERM@120
#SBATCH --requeue

# One xmcap process for each task. Exit code 75 and a death by a signal mean "start me again": the job is requeued.
set -uo pipefail
restarts=0
command=(
  env
  'A=b c'
  xmcap
  train
  --gin_file=models/bb.gin
  --gin_file=runs/train_coco35l.gin
  --gin.MODEL_DIR=gs://my-bucket/runs/bb
  '--gin.INITIAL_CHECKPOINT=['"'"'gs://my-bucket/mt5-base'"'"', '"'"'gs://my-bucket/vit-b16'"'"']'
)

# The warning before the time limit goes to the tasks alone; scancel and preemptions may reach this shell too, which
# waits for the tasks to save.
trap : TERM

# When one task has ended, the others get two minutes.
srun --label --kill-on-bad-exit=0 --wait=120 "${command[@]}"
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
XMCAP_SBATCH
