"""What one writes in ten minutes: a FastAPI handler that calls the translator, a thread for each request.

python plain_server.py MODEL PORT [--one-at-a-time]
"""

from __future__ import annotations

import contextlib
import sys
import threading

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

import transduce

app = FastAPI()
translator = transduce.load(sys.argv[1])
translator.translate("1", details=False)
lock = threading.Lock() if "--one-at-a-time" in sys.argv else contextlib.nullcontext()


class Request(BaseModel):
    text: str
    beam_size: int | None = None
    patience: float | None = None


@app.post("/api/v1/translate")
def translate(request: Request) -> dict[str, object]:
    search = {
        name: value for name in ("beam_size", "patience") if (value := getattr(request, name)) is not None
    }
    with lock:
        (found,) = translator.translate(request.text, details=False, **search)
    return {"translations": [found.to_dict()]}


@app.get("/ready")
def ready() -> str:
    return "ready"


uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", access_log=False)
