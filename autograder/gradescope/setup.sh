#!/usr/bin/env bash
# Run once, as root, when Gradescope builds the image. Stops at the first step that fails and names it.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
source="$root/source"
step="start"
trap 'echo "setup.sh: step \"$step\" failed (line $LINENO): the image is not usable" >&2' ERR

# The system's python3 belongs to Gradescope's harness, so the grader gets a venv. It is made from the interpreter under
# /usr, which the uid of a submission can read.
python="${AUTOGRADER_BASE_PYTHON:-/usr/bin/python3}"
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    step="install python3-venv with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3 python3-venv
fi
step="make a venv in $root/venv"
"$python" -m venv "$root/venv"
step="install the pinned requirements of source/requirements.txt"
"$root/venv/bin/python" -m pip install --no-cache-dir --quiet --disable-pip-version-check \
    -r "$source/requirements.txt"
step="load torch once"
"$root/venv/bin/python" -c 'import torch; print("torch", torch.__version__)'
# Also where the kernel has no Landlock, a submission, which runs as another user, finds no file of the course or the grader.
step="close source to everyone but root"
chmod -R go-rwx "$source"
chmod u+x "$source/run_autograder"
echo "setup.sh: done"
