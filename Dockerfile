# xmcap for TPUs on GKE, as `xmcap launch xpk --docker_image=IMAGE` runs it, with the versions of requirements.lock.
# For GPUs: --build-arg EXTRAS=[cuda,wandb]. See docs/pods.md.
FROM python:3.12.12-slim-bookworm

ARG EXTRAS=[plan,wandb]
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

WORKDIR /xmcap
COPY setup.py pyproject.toml README.md LICENSE requirements.lock ./
COPY xmcap xmcap
COPY tasks tasks
COPY gin gin
COPY launch launch
RUN python -m pip install --no-cache-dir --constraint requirements.lock ".${EXTRAS}"

# Where the command runs: relative paths of a run are inside the container, and are lost with it.
WORKDIR /run/xmcap
# No ENTRYPOINT: XPK gives the whole command.
CMD ["xmcap", "--help"]
