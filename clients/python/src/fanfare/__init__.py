"""A client of fanfare. It needs the standard library only."""

from .client import Client
from .errors import Disconnected, FanfareError, Problem
from .stream import Event, Stream
from .webhook import verify_webhook
from .worker import Fail, Job, Release, Worker

__all__ = ["Client", "Disconnected", "Event", "Fail", "FanfareError", "Job", "Problem", "Release", "Stream", "Worker", "verify_webhook"]
