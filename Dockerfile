# syntax=docker/dockerfile:1
# Flink, a Python environment with this package in it, and the jobs: for JobManager, TaskManagers and the client alike.
#
#   docker build -t flink-agents-py .
#   docker build -t mine --build-arg FLINK_VERSION=2.2.1 --build-arg EXTRAS=redis,openai .
ARG FLINK_VERSION=2.3.0
ARG JAVA=java17

FROM flink:${FLINK_VERSION}-${JAVA} AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl python3 python3-venv \
    # What thread mode embeds, of the version that has just come.
    && apt-get install --yes --no-install-recommends \
        "libpython$(python3 -c 'import sys; print(*sys.version_info[:2], sep=".")')" \
    && rm -rf /var/lib/apt/lists/*

# Packages without a wheel for this Python are compiled here, and the compilers stay here.
FROM base AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ARG FLINK_VERSION
ARG EXTRAS=jobs,postgres,redis,kafka,openai,anthropic,ollama,otel
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential python3-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY flink_agents_py ./flink_agents_py
# The jars of apache-flink are those of the image.
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir "apache-flink==${FLINK_VERSION}" ".[${EXTRAS}]" \
    && for part in lib opt plugins examples; do rm -rf /opt/venv/lib/python3.*/site-packages/pyflink/$part; done \
    # A name that configurations can give, whatever the version.
    && ln -s "$(basename /opt/venv/lib/python3.*)" /opt/venv/lib/python3

FROM base
COPY --from=build /opt/venv /opt/venv
COPY jobs /opt/flink/jobs
# Application mode and several jobs in thread mode want Flink's Python part in the class path.
RUN ln -s /opt/flink/opt/flink-python-*.jar /opt/flink/lib/ \
    && mkdir -p /opt/flink/state /opt/flink/out \
    && chown flink:flink /opt/flink/state /opt/flink/out
ENV PATH=/opt/venv/bin:${PATH} \
    PYTHONUNBUFFERED=1
WORKDIR /opt/flink
