// Starts Swagger UI over this server's own document. The API key that is typed
// in stays in this page and is forgotten when it closes.
window.ui = SwaggerUIBundle({
  url: new URL("../openapi.json", window.location.href).href,
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: false,
  persistAuthorization: false,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  presets: [SwaggerUIBundle.presets.apis],
});
