"""Runs workers in containers: one image per library, no network, nothing writable but the job's own output."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from docker.types import LogConfig, Mount

from benchmarks.cards.algorithms import Algorithm, LibraryCard
from benchmarks.hardware import thread_environment
from benchmarks.paths import ENVIRONMENTS, ROOT
from benchmarks.runner.environment import Environment, EnvironmentFailure
from benchmarks.runner.host import is_gone, this_host
from benchmarks.runner.images import (
    ENGINE_ERRORS,
    BuildOptions,
    connect,
    engine_words,
    ensure_image,
    find_image,
    supplied_sha256,
)
from benchmarks.runner.workload import Workload

HOST_LABEL = "robust-ann-benchmarks.host"
MOST_PROCESSES = 4096
SCRATCH = "size=256m,mode=1777"  # /tmp; large temporary files go to TMPDIR, which is on disk
LOG_BYTES = "100m"


class DockerProcess:
    """A running container."""

    def __init__(self, container, log: Path):
        self._container, self._code, self._lost = container, None, None
        self._copying = threading.Thread(target=self._copy_log, args=(log,), daemon=True)
        self._copying.start()
        threading.Thread(target=self._wait, daemon=True).start()

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._code

    def memory_bytes(self) -> int:
        """Nothing to watch: the kernel holds the container to its limit."""
        return 0

    def cause(self, code: int) -> tuple[str, str] | None:
        """Status and reason of an ending that its exit code does not explain."""
        if self._lost:
            return "failed", self._lost
        try:
            self._container.reload()
            attributes = self._container.attrs
        except ENGINE_ERRORS:
            return None
        if code != 0 and attributes["State"]["OOMKilled"]:
            limit = attributes["HostConfig"]["Memory"]
            return "out-of-memory", f"the kernel killed it at its memory limit of {limit / 1e9:.2f} GB"
        return None

    def kill(self) -> None:
        """End and remove the container, now."""
        try:
            self._container.remove(force=True, v=True)
        except ENGINE_ERRORS:
            pass  # it is gone, or the engine is
        self._copying.join(timeout=10)

    def _wait(self) -> None:
        try:
            code = self._container.client.api.wait(self._container.id, timeout=None)["StatusCode"]
            self._copying.join(timeout=10)
        except ENGINE_ERRORS as error:
            code, self._lost = 1, engine_words(error)
        self._code = 128 - code if code > 128 else code

    def _copy_log(self, log: Path) -> None:
        try:
            with log.open("a", encoding="utf-8") as file:
                for piece in self._container.logs(stream=True, follow=True):
                    file.write(piece.decode("utf-8", "replace"))
                    file.flush()
        except (*ENGINE_ERRORS, OSError):
            pass  # the end of the container tells more than the end of its log


class DockerRunner:
    """`--runner docker`."""

    name = "docker"
    workers_are_children = False  # they are the engine's

    def __init__(self):
        self.client = connect()
        self.options = BuildOptions.from_environment()
        rootless = any("rootless" in option for option in self.client.info().get("SecurityOptions") or ())
        self.user = "0:0" if rootless else f"{os.getuid()}:{os.getgid()}"  # rootless: its root is the caller

    def prepare(self, algorithm: Algorithm, building: Callable[[], None] = lambda: None) -> Environment:
        """The image of the library; `building` is told if it must be made. Raises EnvironmentFailure."""
        log = image_log(algorithm.directory.name)
        image = ensure_image(self.client, algorithm.library, self.options, log, building=building)
        return Environment(image, Path("python"))

    def supplied_sha256(self, library: LibraryCard) -> str | None:
        """Hash of what the user supplied for a library: what is named now, else what its image holds."""
        return supplied_sha256(self.client, library) if library.supplied else None

    def unavailable(self, library: LibraryCard) -> str | None:
        """What the user has to bring before a library can run; nothing more where its image holds it."""
        missing = library.unavailable(os.environ)
        if missing and library.supplied and find_image(self.client, library):
            return None
        return missing

    def start(self, environment: Environment, work: Workload) -> DockerProcess:
        """Start one worker. Raises EnvironmentFailure where the engine does not."""
        work.temporary.mkdir(exist_ok=True)
        written = [work.output] if work.index_exists else [work.output, work.index]
        read = [ROOT / "benchmarks", work.library.directory, *work.inputs]
        read += [work.index] if work.index_exists else []
        service = work.library.service
        handed_on = [*service.variables, *service.optional] if service else []
        try:
            container = self.client.containers.run(
                environment.key,
                [str(work.job_file)],
                detach=True,
                init=True,
                labels={HOST_LABEL: this_host()},
                user=self.user,
                working_dir=str(work.output),
                environment={
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "1",
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "HOME": str(work.temporary),
                    "TMPDIR": str(work.temporary),
                    **thread_environment(work.threads),
                    **{name: os.environ[name] for name in handed_on if name in os.environ},
                },
                mounts=[
                    *(Mount(str(path), str(path), "bind", read_only=False) for path in written),
                    *(Mount(str(path), str(path), "bind", read_only=True) for path in dict.fromkeys(read)),
                ],
                network_mode="host" if service else "none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                read_only=True,
                tmpfs={"/tmp": SCRATCH},
                mem_limit=work.memory_bytes,
                memswap_limit=work.memory_bytes,
                pids_limit=MOST_PROCESSES,
                cpuset_cpus=",".join(map(str, work.cpus)),
                cpuset_mems=",".join(map(str, work.memory_nodes)) or None,
                log_config=LogConfig(type=LogConfig.types.JSON, config={"max-size": LOG_BYTES}),
            )
        except ENGINE_ERRORS as error:
            raise EnvironmentFailure(engine_words(error)) from None
        return DockerProcess(container, work.log)

    def close(self) -> None:
        """Remove what an interrupt between the making of a container and its start has left."""
        try:
            self._remove(lambda host: host == this_host())
        except ENGINE_ERRORS:
            pass  # the next run finds it

    def clear(self) -> list[str]:
        """Remove the containers of hosts that are gone; returns a line for each."""
        try:
            removed = self._remove(is_gone)
        except ENGINE_ERRORS as error:
            return [engine_words(error)]
        return [f"removed container {name}, left behind by a run that was killed" for name in removed]

    def _remove(self, whose: Callable[[str], bool]) -> list[str]:
        found = self.client.containers.list(all=True, ignore_removed=True, filters={"label": HOST_LABEL})
        gone = [container for container in found if whose(container.labels[HOST_LABEL])]
        for container in gone:
            container.remove(force=True, v=True)
        return [container.short_id for container in gone]


def image_log(library: str) -> Path:
    """Where the output of building a library's image goes."""
    return ENVIRONMENTS / f"image-{library}.log"
