# The grader in an image, for a machine of the staff: docs/platforms.md. INDEX is where pip finds a CPU build of torch.
FROM debian:bookworm-slim
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /course
COPY requirements.txt /course/
ARG INDEX=""
RUN python3 -m venv /venv \
    && /venv/bin/python -m pip install --no-cache-dir --quiet --disable-pip-version-check \
       ${INDEX:+--extra-index-url "$INDEX"} -r requirements.txt
COPY course.toml /course/
COPY autograder /course/autograder
COPY assignments /course/assignments
COPY reference /course/reference
COPY starter_code /course/starter_code
ENTRYPOINT ["/venv/bin/python", "-m", "autograder"]
