"""Tools and prompts of MCP servers, on the official SDK (extra ``mcp``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr, model_validator
from typing_extensions import Self

from flink_agents_py.errors import McpUnavailableError, ToolError
from flink_agents_py.ext.mcp_session import McpConnection, McpSession
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.resources.aio import LoopBound
from flink_agents_py.resources.mcp import BaseMCPServer
from flink_agents_py.resources.messages import ChatMessage, ContentPart, ImagePart, MessageRole, TextPart
from flink_agents_py.resources.tools import ToolMetadata

SDK = Sdk("mcp", "mcp")

_REQUEST_TIMEOUT = -32001


class MCPServer(BaseMCPServer):
    """An MCP server: a program that speaks on its standard input and output, or a URL (streamable HTTP).

    It is contacted when it is first used, on the worker, and again when the connection was lost; it need not be there
    when the agent is compiled or the job starts. Each subtask has a session (and with ``command`` a process) of its
    own.

    Args:
        command: the program to start, with ``args``, in the folder ``cwd``. It gets a small environment (``PATH``,
            ``HOME``, ...) and what ``env`` adds.
        url: where the server is; ``headers`` go with each request (the peer's name ``endpoint`` is accepted).
        timeout: seconds for one request.
        connect_timeout: seconds to start the program, or to connect, and to agree on a protocol version.
    """

    secret_arguments: ClassVar[frozenset[str]] = frozenset({"env", "headers"})

    command: str | None = None
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    timeout: float = Field(default=60.0, gt=0)
    connect_timeout: float = Field(default=30.0, gt=0)

    _connections: LoopBound[McpConnection] = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _endpoint_means_url(cls, data: Any) -> Any:
        if isinstance(data, dict) and "endpoint" in data:
            data = {("url" if name == "endpoint" else name): value for name, value in data.items()}
        return data

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either command (a program to start) or url")
        return self

    def model_post_init(self, _context: Any) -> None:
        """Prepare, without contacting anybody."""
        # The callbacks hold the settings, not this object: the session shall end when nobody holds it any more.
        settings = self.model_copy()
        opening, where, patience = settings._client, settings._where, settings.connect_timeout  # noqa: SLF001 - its own class
        self._connections = LoopBound(lambda: McpConnection(opening, where, patience), McpConnection.close)

    def open(self) -> None:
        """Begin to import the SDK."""
        SDK.warm()

    def close(self) -> None:
        """Close the session; a program that was started ends."""
        self._connections.close()

    async def alist_tools(self) -> list[ToolMetadata]:
        """The tools it has; asked once per session."""
        session = (await self._connection()).session()
        if "tools" not in session.memo:
            tools = await self._asked(session.use(lambda client: _all(client.list_tools, "tools")))
            session.memo["tools"] = [
                ToolMetadata(name=tool.name, description=tool.description or "", parameters=tool.input_schema)
                for tool in tools
            ]
        known: list[ToolMetadata] = session.memo["tools"]
        return known

    async def acall_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool; its text, or its structured content.

        Raises:
            ToolError: the server reports an error of the tool; the message is for the model.
            McpUnavailableError: the server is not there, or was lost; whether the tool was called is not known then.
        """
        session = (await self._connection()).session()
        result = await self._asked(session.use(lambda client: client.call_tool(name, dict(arguments))))
        if result.is_error:
            raise ToolError(_text(result.content) or f"{name} failed", where=f"tool {name} of {self._where}")
        structured = result.structured_content
        if structured is None:
            return _text(result.content)
        return structured["result"] if set(structured) == {"result"} else structured

    async def alist_prompts(self) -> list[str]:
        """Names of the prompts it has."""
        session = (await self._connection()).session()
        return await self._prompts(session)

    async def aget_prompt(self, name: str, arguments: Mapping[str, str]) -> list[ChatMessage] | None:
        """A prompt with its arguments filled in; ``None`` if the server has none of that name."""
        session = (await self._connection()).session()
        if name not in await self._prompts(session):
            return None
        result = await self._asked(session.use(lambda client: client.get_prompt(name, dict(arguments))))
        return [ChatMessage(role=MessageRole(m.role), content=_content(m.content)) for m in result.messages]

    # --- the connection -----------------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"MCP server {self.url or ' '.join([self.command or '', *self.args])}"

    async def _connection(self) -> McpConnection:
        await SDK.aload()
        return self._connections.get()

    async def _asked(self, answer: Any) -> Any:
        try:
            return await answer
        except (await SDK.aload()).MCPError as error:
            if error.code != _REQUEST_TIMEOUT:
                raise
            raise McpUnavailableError(
                f"the MCP server did not answer within {self.timeout:g} s", where=self._where, fix="raise timeout"
            ) from error

    async def _prompts(self, session: McpSession) -> list[str]:
        if "prompts" not in session.memo:
            prompts = await self._asked(session.use(lambda client: _all(client.list_prompts, "prompts")))
            session.memo["prompts"] = [prompt.name for prompt in prompts]
        names: list[str] = session.memo["prompts"]
        return names

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        import mcp

        async with AsyncExitStack() as stack:
            client = mcp.Client(await self._transport(stack), read_timeout_seconds=self.timeout)
            yield await stack.enter_async_context(client)

    async def _transport(self, stack: AsyncExitStack) -> Any:
        if self.command is not None:
            from mcp.client.stdio import StdioServerParameters, stdio_client

            parameters = StdioServerParameters(command=self.command, args=self.args, env=self.env, cwd=self.cwd)
            # The descriptor, not sys.stderr: in Flink's thread mode that is no file.
            log = stack.enter_context(open(2, "w", closefd=False))  # noqa: ASYNC230, SIM115 - nothing is opened
            return stdio_client(parameters, errlog=log)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        timeout = httpx2.Timeout(self.timeout, connect=self.connect_timeout)
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=self.headers, timeout=timeout, follow_redirects=True)
        )
        return streamable_http_client(str(self.url), http_client=http)


async def _all(list_page: Callable[..., Awaitable[Any]], kind: str) -> list[Any]:
    found: list[Any] = []
    cursor = None
    while True:
        page = await list_page(cursor=cursor)
        found += getattr(page, kind)
        cursor = page.next_cursor
        if not cursor:
            return found


def _text(content: list[Any]) -> Any:
    """The text of a result; its parts as JSON where there are others than text."""
    if all(part.type == "text" for part in content):
        return "\n".join(part.text for part in content)
    return [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in content]


def _content(part: Any) -> str | list[ContentPart]:
    if part.type == "text":
        text: str = part.text
        return text
    if part.type == "image":
        return [ImagePart(data=part.data, media_type=part.mime_type)]
    if part.type == "resource" and getattr(part.resource, "text", None) is not None:
        return [TextPart(text=part.resource.text)]
    return [TextPart(text=str(getattr(part, "uri", part.type)))]
