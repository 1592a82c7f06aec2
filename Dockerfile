# One image for all: by default the embedded server, its data on the volume /data; with an
# LHB_DATABASE_URL of PostgreSQL also `lhb migrate`, `lhb serve` and `lhb worker`.
# Another Python 3.11 on Debian with --build-arg BASE=...; `make image-check` builds on Debian's own.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS build
WORKDIR /src
COPY deploy/requirements.txt deploy/requirements.txt
# by digest (`make pins`); what comes from a registry with another one is refused
RUN python3 -m venv /opt/lhb \
 && /opt/lhb/bin/pip install --no-cache-dir --disable-pip-version-check --only-binary :all: --require-hashes -r deploy/requirements.txt
COPY pyproject.toml setup.py lhb.py README.md LICENSE ./
COPY lhb_engine lhb_engine
COPY service service
COPY clients clients
RUN /opt/lhb/bin/pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps --no-build-isolation . \
 && /opt/lhb/bin/pip uninstall --yes --quiet pip setuptools \
 && find /opt/lhb -depth -type d -name tests -exec rm -rf {} +

FROM ${BASE}
LABEL org.opencontainers.image.title="long-horizon-bandits" \
      org.opencontainers.image.description="A REST service for decisions whose rewards come late: server, worker and command line; data on /data" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 lhb \
 && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin lhb \
 && install --directory --owner lhb --group lhb --mode 700 /data
COPY --from=build /opt/lhb /opt/lhb
ENV PATH=/opt/lhb/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OPENBLAS_NUM_THREADS=1 \
    OMP_NUM_THREADS=1 \
    MPLCONFIGDIR=/tmp \
    LHB_DATABASE_URL=sqlite:////data/lhb.db
# by number, so that whoever runs it can see that it is not root
USER 10001:10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
CMD ["lhb", "serve", "--host", "0.0.0.0", "--port", "8080"]
