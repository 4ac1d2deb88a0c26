// A running threadkeep, as a host reaches it: one request, a short patience, and an error that says what to do.

import { readFile } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"
import type { Item } from "./history.ts"

const TOKEN_FILE = join(homedir(), ".local/share/threadkeep/threadkeep.db.control-token")

export type Settings = {
  url?: string
  token?: string
  tokenFile?: string
  timeoutMs?: number
}

export type LaidOut = {
  thread: string
  checkpoint: number | null
  tokens: number
  items: Item[]
  state: string | null
  compacted: { tokens_before: number; tokens_after: number } | null
  trouble: string | null
  answer: string | null
}

export class Unavailable extends Error {}

/** What threadkeep refuses for a reason of its own: nothing is wrong with reaching it. */
export class Refused extends Error {}

export class Threadkeep {
  constructor(private readonly settings: Settings) {}

  /** Hand over a whole history and return the window to send in its place. */
  laidOut(history: { items: Item[]; session: string; model: string; compact?: boolean; focus?: string; limit_tokens?: number }) {
    return this.ask<LaidOut>("POST", "/threadkeep/v1/histories", { dialect: "responses", ...history })
  }

  private get url(): string {
    return (this.settings.url ?? process.env.THREADKEEP_URL ?? "http://127.0.0.1:4621").replace(/\/+$/, "").replace(/\/v1$/, "")
  }

  private async token(): Promise<string> {
    const given = this.settings.token ?? process.env.THREADKEEP_CONTROL_TOKEN
    if (given) return given
    const file = this.settings.tokenFile ?? TOKEN_FILE
    try {
      return (await readFile(file, "utf8")).trim()
    } catch {
      throw new Unavailable(`no control token in ${file}; start threadkeep serve, or set THREADKEEP_CONTROL_TOKEN`)
    }
  }

  private async ask<T>(method: string, path: string, body: unknown): Promise<T> {
    const headers = { authorization: `Bearer ${await this.token()}`, "content-type": "application/json" }
    const signal = AbortSignal.timeout(this.settings.timeoutMs ?? 15_000)
    let answer: Response
    try {
      answer = await fetch(this.url + path, { method, headers, body: JSON.stringify(body), signal })
    } catch {
      throw new Unavailable(`threadkeep does not answer at ${this.url}; start it with: threadkeep serve`)
    }
    const said: any = await answer.json().catch(() => ({}))
    if (answer.ok) return said as T
    const message = said.error?.message ?? `status ${answer.status}`
    throw answer.status === 401 || answer.status === 403 || answer.status >= 500
      ? new Unavailable(`threadkeep at ${this.url} refuses: ${message}`)
      : new Refused(message)
  }
}
