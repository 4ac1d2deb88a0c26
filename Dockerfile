# The gateway as a container. It listens on every address, so it serves only requests that carry a key of /data/keys.toml:
#
#   docker build --tag threadkeep .
#   docker run --rm --volume threadkeep:/data threadkeep key alice
#   docker run --publish 127.0.0.1:4621:4621 --volume threadkeep:/data threadkeep
#
# compose.yaml runs it with PostgreSQL.

ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS build
WORKDIR /build
COPY requirements/server.txt requirements/
# The pins are complete and have hashes: nothing is resolved anew, and nothing else is installed.
RUN python -m venv /opt/threadkeep \
    && /opt/threadkeep/bin/python -m pip install --no-cache-dir --no-deps --require-hashes --requirement requirements/server.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/threadkeep/bin/python -m pip install --no-cache-dir --no-index --no-deps --no-build-isolation .

FROM python:${PYTHON_VERSION}-slim
COPY --from=build /opt/threadkeep /opt/threadkeep
RUN useradd --uid 10001 --home-dir /data --shell /usr/sbin/nologin threadkeep \
    && install --directory --owner threadkeep --group threadkeep --mode 0700 /data
ENV PATH=/opt/threadkeep/bin:$PATH \
    HOME=/data \
    THREADKEEP_STORE=/data/threadkeep.db \
    THREADKEEP_KEYS_FILE=/data/keys.toml \
    THREADKEEP_HOST=0.0.0.0 \
    THREADKEEP_AUTO_COMPACT=on
USER threadkeep
WORKDIR /data
VOLUME /data
EXPOSE 4621
# Running answers get a minute to come to their end: `docker stop --time 90`.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:4621/healthz', timeout=4)"]
ENTRYPOINT ["threadkeep"]
CMD ["serve"]
