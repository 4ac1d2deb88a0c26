// threadkeep in opencode: sessions are recorded and compacted by a running threadkeep, and the model is shown its window.

import { ASIDE, isAside, isTyped, itemsOf, messagesOf, opened, withoutAsides, withoutTyped } from "./history.ts"
import type { Message } from "./history.ts"
import { Threadkeep as Connection, Refused, Unavailable } from "./threadkeep.ts"
import type { LaidOut, Settings } from "./threadkeep.ts"

const COMMAND = "codex-compact"

type Options = Settings & {
  /** Whether the plugin does anything at all. */
  enableCodexCompaction?: boolean
  /** Compact before a request that would hold this many tokens; off where it is not given. */
  autoCompactTokenLimit?: number
}

export const Threadkeep = async ({ client }: any, options: Options = {}) => {
  if (options.enableCodexCompaction === false) return {}
  const threadkeep = new Connection(options)
  const latest = new Map<string, LaidOut>()
  const summarising = new Set<string>()
  const noticed = new Set<string>()

  // Said once for each reason: a session of a hundred requests must not be told a hundred times.
  async function notice(sessionID: string, text: string) {
    if (noticed.has(`${sessionID} ${text}`)) return
    noticed.add(`${sessionID} ${text}`)
    const body = { service: "threadkeep", level: "warn", message: text, extra: { sessionID } }
    await client.app.log({ body }).catch(() => undefined)
    await client.tui.showToast({ body: { title: "threadkeep", message: text, variant: "warning" } }).catch(() => undefined)
  }

  /** Return the window of a history; undefined, and a notice, where threadkeep cannot be asked. */
  async function laidOut(messages: Message[], more: { compact?: boolean; focus?: string } = {}) {
    const { sessionID, model } = messages.findLast(({ info }) => info.role === "user")?.info ?? {}
    const history = { items: itemsOf(messages), session: `opencode:${sessionID}`, model: model?.modelID ?? "" }
    const limit = options.autoCompactTokenLimit ? { limit_tokens: options.autoCompactTokenLimit } : {}
    const answer = await threadkeep.laidOut({ ...history, ...limit, ...more })
    latest.set(sessionID, answer)
    if (answer.trouble) await notice(sessionID, `not compacted: ${answer.trouble}`)
    return answer
  }

  /** Do what the user asked for, and return the message that has the model say so. */
  async function obeyed(aside: Message, messages: Message[]): Promise<Message[]> {
    const focus = textOf(aside).slice(ASIDE.length).replace(/^compact\s*/, "").trim()
    let window = messages
    let report: string
    try {
      const answer = await laidOut(messages, { compact: true, ...(focus ? { focus } : {}) })
      window = messagesOf(answer.items, messages)
      const { tokens_before, tokens_after } = answer.compacted!
      report = `threadkeep compacted this session: ${tokens_before} → ${tokens_after} tokens. Nothing is lost.`
    } catch (error) {
      if (error instanceof Refused) window = await shown(messages)
      report = `threadkeep did not compact this session: ${(error as Error).message}`
      await notice(aside.info.sessionID, report)
    }
    return [...window, repeated(aside, report)]
  }

  /** Have a typed command answered, and return the message that has the model say so. */
  async function answered(typed: Message, messages: Message[]): Promise<Message[]> {
    try {
      const { answer, checkpoint, items } = await laidOut(messages)
      const window = checkpoint !== null ? messagesOf(items, messages) : withoutTyped(messages)
      return [...window, answer === null ? typed : repeated(typed, answer)]
    } catch (error) {
      if (!(error instanceof Unavailable || error instanceof Refused)) throw error
      return [...withoutTyped(messages), repeated(typed, `threadkeep did not answer: ${error.message}`)]
    }
  }

  /** Return what the model is shown of a history; the history itself where threadkeep cannot be asked. */
  async function shown(messages: Message[], more: { compact?: boolean } = {}): Promise<Message[]> {
    if (!messages.length) return messages
    try {
      const answer = await laidOut(messages, more)
      if (answer.checkpoint !== null) return messagesOf(answer.items, messages)
      // opencode compacted by itself: its summary stays as it is, with what threadkeep knows in front of it.
      return answer.state ? opened(withoutTyped(messages), answer.state) : withoutTyped(messages)
    } catch (error) {
      const { sessionID } = messages[0].info
      if (!(error instanceof Unavailable || error instanceof Refused)) throw error
      // Too little to compact is no trouble where nobody asked for it.
      if (more.compact && error instanceof Refused) return withoutTyped(messages)
      await notice(sessionID, `${error.message}; this session goes on without it`)
      return withoutTyped(messages)
    }
  }

  return {
    config: async (config: any) => {
      const template = "$ARGUMENTS"
      const description = "Compact this session with threadkeep; what follows is kept in view"
      config.command = { [COMMAND]: { template, description }, ...config.command }
    },
    "command.execute.before": async (input: any, output: any) => {
      if (input.command !== COMMAND) return
      const text = `${ASIDE}compact ${input.arguments ?? ""}`.trimEnd()
      output.parts.splice(0, output.parts.length, { type: "text", text })
    },
    "experimental.session.compacting": async (input: any, output: any) => {
      const known = latest.get(input.sessionID)
      summarising.add(input.sessionID)
      if (known?.state) output.context.push(`What must still hold after this summary:\n${known.state}`)
    },
    "experimental.chat.messages.transform": async (_: unknown, output: { messages: Message[] }) => {
      const last = output.messages.findLast(({ info }) => info.role === "user")
      if (!last) return
      const { sessionID } = last.info
      const history = withoutAsides(output.messages)
      if (summarising.delete(sessionID)) {
        // opencode reads the whole history to summarise it. It is recorded and compacted here before that: what is made of it then
        // continues this history, and its session state with it.
        await shown(history, { compact: true })
        replace(output.messages, history)
      } else if (isAside(last)) {
        const answering = output.messages.filter(({ info }) => info.parentID === last.info.id)
        replace(output.messages, [...(await obeyed(last, history)), ...answering])
      } else if (isTyped(last)) {
        const answering = history.filter(({ info }) => info.parentID === last.info.id)
        const asked = history.filter((message) => !answering.includes(message))
        replace(output.messages, [...(await answered(last, asked)), ...answering])
      } else {
        replace(output.messages, await shown(history))
      }
    },
  }
}

function replace(messages: Message[], others: Message[]) {
  messages.splice(0, messages.length, ...others)
}

/** Return a message that has the model repeat what threadkeep says. */
function repeated(said: Message, report: string): Message {
  return { info: said.info, parts: [{ ...said.parts[0], text: `Answer with this sentence and nothing else: ${report}` }] }
}

function textOf(message: Message): string {
  return message.parts.find((part) => part.type === "text")?.text ?? ""
}
