"""Models of the Hugging Face hub: downloaded into the hub's own shared cache, linked from ours under their name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tools.errors import UserError

__all__ = ["pull_from_hub"]

_WANTED = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]


def pull_from_hub(repo_id: str, cache: Path, say: Callable[[str], None]) -> Path:
    """`cache/org--name`, a link to the snapshot of `repo_id`. What is here already is used without asking the hub.

    Raises:
        UserError: no such model there, no access, or no connection; a download that broke off goes on next time.
    """
    link = cache / repo_id.replace("/", "--")
    if (link / "config.json").is_file() and any(link.glob("*.safetensors")):
        return link
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    say(f"downloading {repo_id} from the hub")
    try:
        snapshot = Path(snapshot_download(repo_id, allow_patterns=_WANTED, endpoint=os.environ.get("HF_ENDPOINT")))
    except GatedRepoError:
        raise UserError(
            f"{repo_id}: the hub lets only accepted users have this model; ask there, set HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise UserError(f"{repo_id}: the hub has no such model, or it is private (then set HF_TOKEN)") from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, httpx.HTTPError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{repo_id}: the hub can't be reached ({reason}); check the network, or give the path of a model directory"
        ) from None
    if not (snapshot / "config.json").is_file() or not any(snapshot.glob("*.safetensors")):
        raise UserError(
            f"{repo_id}: expected config.json and *.safetensors there, found no such files; it isn't usable"
        )
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.symlink_to(snapshot)
    fresh.replace(link)
    return link
