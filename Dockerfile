# The base is an argument, so that a mirror or a pinned digest can stand in for it.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY requirements/monitor.txt ./
RUN python3 -m venv /venv \
 && /venv/bin/pip install --require-hashes --no-deps --only-binary :all: -r monitor.txt \
 && /venv/bin/pip check

FROM ${PYTHON_IMAGE}
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GATE_HOST=0.0.0.0 \
    GATE_PORT=8080
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin gate
WORKDIR /srv
COPY --from=packages /venv /venv
COPY app ./app
COPY golden ./golden
# Nothing is written at run time; without this every start would compile the application anew.
RUN python -m compileall -q app
USER 10001
EXPOSE 8080
STOPSIGNAL SIGTERM
# Exec form: the process itself gets the signal, and has the platform's grace period to put its runs down.
ENTRYPOINT ["python", "-m", "app", "serve"]
