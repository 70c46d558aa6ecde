# Base of every index image: an empty Python environment and how a worker is started. Its code is not in here:
# it is mounted when the image runs, so that a container runs exactly what `--runner venv` runs.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE}

# A company's certificates, if there are any: `python -m benchmarks install --ca-bundle FILE` puts the file beside this one.
COPY Dockerfile ca-bundle.cr[t] /usr/local/share/
RUN if [ -f /usr/local/share/ca-bundle.crt ]; then cp /usr/local/share/ca-bundle.crt /etc/ssl/certs/ca-certificates.crt; fi
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# OpenMP, which several of the libraries link to.
RUN ldconfig -p | grep -q libgomp.so.1 || (apt-get update && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*)

RUN python3 -m venv /environment
ENV PATH=/environment/bin:$PATH
ENTRYPOINT ["python", "-m", "benchmarks.worker"]
