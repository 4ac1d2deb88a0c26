// opencode's messages as the items threadkeep keeps, and threadkeep's window as opencode's messages. Pure.

export type Part = Record<string, any> & { type: string }
export type Message = { info: Record<string, any>; parts: Part[] }
export type Item = Record<string, any>

// What opencode's own compaction asks its model in place of what it replaced.
const SUMMARY_QUESTION = "What did we do so far?"
// How a message begins that is said to threadkeep, and answered, and never shown to the model again.
export const ASIDE = "[threadkeep] "
// A command that the user typed, told as the gateway tells it.
const TYPED = /^tk(?:|\s+(?:status|undo|help)|\s+(?:compact|recall|pin|unpin|note)(?:\s[^]*)?)$/i

/** Return the messages without what is said to threadkeep by opencode's own commands, and the answers to it. */
export function withoutAsides(messages: Message[]): Message[] {
  return without(messages, isAside)
}

/** Return the messages without commands that the user typed, and the answers to them; threadkeep itself knows these. */
export function withoutTyped(messages: Message[]): Message[] {
  return without(messages, isTyped)
}

function without(messages: Message[], isSaidToUs: (message: Message) => boolean): Message[] {
  const ids = new Set(messages.filter(isSaidToUs).map((message) => message.info.id))
  return messages.filter(({ info }) => !(ids.has(info.id) || ids.has(info.parentID)))
}

export function isAside(message: Message): boolean {
  return message.info.role === "user" && message.parts.some((part) => part.type === "text" && part.text.startsWith(ASIDE))
}

/** Whether a message is a command such as `tk status`; `opencode run` puts what it is given in quotes. */
export function isTyped({ info, parts }: Message): boolean {
  if (info.role !== "user") return false
  const said = texts(parts.filter((part) => !part.synthetic)).join("\n").trim()
  return TYPED.test(said.replace(/^"([^"]*)"$/, "$1").trim())
}

/** Return a history as items of the Responses API. An item's id is its message's: it says where it came from, and counts nowhere. */
export function itemsOf(messages: Message[]): Item[] {
  return messages.flatMap((message) => (message.info.role === "user" ? userItems(message) : assistantItems(message)))
}

function userItems({ info, parts }: Message): Item[] {
  const said = texts(parts.filter((part) => !part.synthetic))
  const told = texts(parts.filter((part) => part.synthetic))
  const asked = parts.some((part) => part.type === "compaction") ? [SUMMARY_QUESTION] : []
  const items: Item[] = []
  if (told.length) items.push(message("developer", told, info.id))
  if (said.length || asked.length) items.push(message("user", [...asked, ...said], info.id))
  return items
}

function assistantItems({ info, parts }: Message): Item[] {
  const said = texts(parts)
  const items: Item[] = said.length ? [message("assistant", said, info.id)] : []
  for (const part of parts) {
    if (part.type !== "tool") continue
    const { status, input, output, error } = part.state ?? {}
    const call = { type: "function_call", name: part.tool, call_id: part.callID, arguments: JSON.stringify(input ?? {}) }
    items.push({ ...call, id: info.id })
    if (status === "completed" || status === "error") {
      const text = String(status === "completed" ? output : error)
      items.push({ type: "function_call_output", call_id: part.callID, output: text, id: info.id })
    }
  }
  return items
}

function texts(parts: Part[]): string[] {
  return parts.flatMap((part) => {
    if (part.type === "text" && !part.ignored && part.text) return [part.text]
    if (part.type === "file") return [`[file ${part.filename ?? part.url?.slice(0, 80) ?? ""}]`]
    return []
  })
}

function message(role: string, said: string[], id: string): Item {
  const type = role === "assistant" ? "output_text" : "input_text"
  return { type: "message", role, content: said.map((text) => ({ type, text })), id }
}

/**
 * Return the messages a window stands for: those it keeps, as they are; outputs it cut to a line, cut; the session state as a
 * message of its own. What stands before the first kept message keeps its place there.
 */
export function messagesOf(window: Item[], messages: Message[]): Message[] {
  const sent = itemsOf(messages)
  const places = new Map(messages.map((message) => [message.info.id, message]))
  const callers = new Map(sent.filter((item) => item.call_id).map((item) => [item.call_id, item.id]))
  const outputs = new Map(sent.filter((item) => item.type === "function_call_output").map((item) => [item.call_id, item.output]))
  const laidOut: { id: string; items: Item[] }[] = []
  for (const item of window) {
    const id = (item.call_id && callers.get(item.call_id)) ?? (places.has(item.id) ? item.id : undefined)
    if (id === undefined) laidOut.push({ id: "", items: [item] })
    else if (laidOut.at(-1)?.id === id) laidOut.at(-1)!.items.push(item)
    else laidOut.push({ id, items: [item] })
  }
  return laidOut.flatMap(({ id, items }, index) => {
    if (!id) return stateMessage(items[0], messages, index)
    const original = places.get(id)!
    return [kept(original, items, { whole: itemsOf([original]).length === items.length, outputs })]
  })
}

/** Return a message with the parts a window has of it. Reasoning stays with a message that is whole: alone, providers refuse it. */
function kept(original: Message, items: Item[], known: { whole: boolean; outputs: Map<string, string> }): Message {
  const calls = new Map(items.filter((item) => item.type === "function_call_output").map((item) => [item.call_id, item.output]))
  const changed = [...calls].some(([call, output]) => known.outputs.get(call) !== output)
  if (known.whole && !changed) return original
  const opened = new Set(items.filter((item) => item.type === "function_call").map((item) => item.call_id))
  const speaks = items.some((item) => item.type === "message")
  const parts = original.parts.flatMap((part) => {
    if (part.type === "tool") return opened.has(part.callID) ? [withOutput(part, calls.get(part.callID))] : []
    if (part.type === "reasoning") return known.whole ? [part] : []
    return speaks || !["text", "file"].includes(part.type) ? [part] : []
  })
  return { info: original.info, parts }
}

function withOutput(part: Part, output: string | undefined): Part {
  if (output === undefined || part.state?.status !== "completed" || part.state.output === output) return part
  return { ...part, state: { ...part.state, output } }
}

function stateMessage(item: Item, messages: Message[], index: number): Message[] {
  const text = (item.content ?? []).map((part: Part) => part.text ?? "").join("\n")
  const like = messages.find(({ info }) => info.role === "user")
  if (!text || !like) return []
  return [synthetic(like, text, `threadkeep_${index}`)]
}

/** Return a message of a user that nobody wrote, with an id that is the same in every request. */
export function synthetic(like: Message, text: string, name: string): Message {
  const { sessionID, agent, model, time } = like.info
  const id = `msg_${name}`
  const part = { type: "text", text, synthetic: true, id: `prt_${name}`, sessionID, messageID: id }
  return { info: { id, sessionID, role: "user", agent, model, time: { created: time?.created ?? 0 } }, parts: [part] }
}

/** Return the messages with a text in front of what the first of the user's says. */
export function opened(messages: Message[], text: string): Message[] {
  const at = messages.findIndex(({ info }) => info.role === "user")
  if (at < 0) return messages
  const { info, parts } = messages[at]
  const part = { type: "text", text, synthetic: true, id: "prt_threadkeep_state", sessionID: info.sessionID, messageID: info.id }
  return [...messages.slice(0, at), { info, parts: [part, ...parts] }, ...messages.slice(at + 1)]
}
