/** An event as it came: its name, its data as text, and the id to go on after. */
export interface RawEvent {
  event: string;
  data: string;
  id: string;
}

/** Reads server-sent events from text that comes in pieces. */
export class EventParser {
  /** The id of the last whole event, "" before the first. */
  id = "";
  /** How long after its end a stream may be opened again, in milliseconds, if the server said so. */
  retry: number | undefined;
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id: string;

  /** @param id the id after which the stream was opened */
  constructor(id = "") {
    this.id = this.#id = id;
  }

  /** Takes a piece of text and returns the events that are whole now. */
  *push(text: string): Generator<RawEvent> {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = line === "" ? this.#dispatch() : this.#field(line);
      if (event) yield event;
    }
  }

  #field(line: string): undefined {
    const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
  }

  #dispatch(): RawEvent | undefined {
    const event = this.#event || "message", data = this.#data;
    this.#event = "";
    this.#data = [];
    this.id = this.#id;
    return data.length ? { event, data: data.join("\n"), id: this.id } : undefined;
  }
}
