# xmcap for TPUs on GKE, as `xmcap launch xpk --docker_image=IMAGE` runs it, with the files that requirements.lock holds.
# For GPUs: --build-arg EXTRAS=[cuda,wandb]. See docs/pods.md.
FROM python:3.12.12-slim-bookworm@sha256:593bd06efe90efa80dc4eee3948be7c0fde4134606dd40d8dd8dbcade98e669c

ARG EXTRAS=[plan,wandb]
# Of the user that runs the command. A node that gives its devices to root alone needs 0.
ARG RUN_AS=1000
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/home/xmcap PATH=/xmcap/.venv/bin:$PATH
SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# What is installed belongs to root; the user writes in the home and where the command runs.
RUN useradd --uid 1000 --create-home --home-dir /home/xmcap xmcap \
  && install --directory --owner=xmcap --group=xmcap /run/xmcap
WORKDIR /xmcap
COPY setup.py pyproject.toml README.md LICENSE requirements.lock ./
COPY .ci/environment.sh .ci/environment.sh
COPY xmcap xmcap
COPY tasks tasks
COPY gin gin
COPY launch launch
RUN . .ci/environment.sh && UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1 prepare_environment "${EXTRAS}"

# Where the command runs: relative paths of a run are inside the container, and are lost with it.
WORKDIR /run/xmcap
USER ${RUN_AS}
# No ENTRYPOINT: XPK gives the whole command.
CMD ["xmcap", "--help"]
