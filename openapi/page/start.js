// Starts Swagger UI over this server's own document. The API key that is typed
// in stays in this page and is forgotten when it closes.

// How long "Try it out" shows a stream, which by itself never ends.
const streamSeconds = 3;

// fetchBriefly is fetch for calls that are tried: a stream ends after a few seconds,
// with what came until then and how to go on.
async function fetchBriefly(url, request) {
  const response = await fetch(url, request);
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return response;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const stop = setTimeout(() => reader.cancel(), streamSeconds * 1000);
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  clearTimeout(stop);
  text += `: This came in ${streamSeconds} s. The curl command above, with -N, shows what follows.\n`;
  return new Response(text, { status: response.status, headers: response.headers });
}

window.ui = SwaggerUIBundle({
  url: new URL("../../openapi.json", window.location.href).href,
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: false,
  persistAuthorization: false,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  presets: [SwaggerUIBundle.presets.apis],
  requestInterceptor: (request) => Object.assign(request, { userFetch: fetchBriefly }),
});
