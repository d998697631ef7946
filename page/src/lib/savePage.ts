// The page as one HTML file that works from a disk: its script, its styles and the answers it has had.
//
// Every head of the trace is fetched first, within a budget, so that the file can show more than was looked at.
import { session } from '../session.svelte'
import { recorded, type Saved } from './api'
import { fileName, save } from './download'
import { loadStory } from './loadStory'
import { kinds } from './types'

// Bytes of tensors in a file: past it, only the heads that were looked at go along.
const BUDGET = 24_000_000

/** Make the file and hand it to the reader; throws Problem when the server does not answer. */
export async function savePage(): Promise<void> {
  const [html, script, style] = await Promise.all(
    ['index.html', 'assets/page.js', 'assets/page.css'].map(async (path) => {
      const answer = await fetch(new URL(path, document.baseURI))
      if (!answer.ok) throw new Error(`${path}: ${answer.status}`)
      return await answer.text()
    }),
  )
  await collect()
  const data = JSON.stringify({ ...ofThisTrace(), hash: location.hash })
  save(fileName(`transduce ${session.trace?.text ?? ''}`, 'html'), inlined(html, script, style, data), 'text/html')
}

async function collect(): Promise<void> {
  const { trace, model } = session
  if (!trace || !model?.heads) return
  await session.open(trace.id)
  // A model may lack a part (positions, a lens); then the file lacks it too, and says so where it is looked for.
  const optional = (answer: Promise<unknown>) => answer.catch(() => null)
  for (const path of ['shapes', 'steps?k=10', 'lens?k=5']) await optional(session.json(path))
  await optional(session.positions())
  const { encoder, decoder } = trace.rows
  const config = model.config
  const width = (config?.d_model ?? 0) * 8 + (config?.d_ff ?? 0)
  for (let layer = 0; layer < (config?.num_encoder_layers ?? 0); layer++) {
    if (layer * encoder * width * 4 > BUDGET / 4) break
    await optional(loadStory(trace, layer))
  }
  for (let step = 0; step < decoder; step++) {
    if (decoder * (config?.target_vocab_size ?? 0) * 4 > BUDGET / 4) break
    await optional(session.tensors(`api/v1/traces/${trace.id}/logits?step=${step}`))
  }
  for (const kind of kinds) {
    await session.overview(kind)
    const { layers, heads } = model.heads[kind]
    if (layers * heads * 3 * (encoder + decoder) ** 2 * 9 > BUDGET) continue
    for (let layer = 0; layer < layers; layer++) {
      for (let head = 0; head < heads; head++) await session.head(kind, layer, head)
    }
  }
}

/** The answers without those about other sentences. */
function ofThisTrace(): Saved {
  const own = `traces/${session.trace?.id ?? ''}`
  const entries = Object.entries(recorded.responses).filter(([key]) => !key.includes('/traces/') || key.includes(own))
  return { responses: Object.fromEntries(entries) }
}

/** The page's own HTML with script, styles and data inside it. */
export function inlined(html: string, script: string, style: string, data: string): string {
  // Functions, because `$&` in a replacement string would be a pattern; `</script` must not end the element.
  return html
    .replace(/<script[^>]*src="[^"]*page\.js"[^>]*><\/script>/, '')
    .replace(/<link[^>]*icon[^>]*>/, '')
    .replace(/<link[^>]*page\.css"[^>]*>/, () => `<style>${style.replaceAll('</style', '<\\/style')}</style>`)
    .replace('</body>', () =>
      `<script type="application/json" id="transduce-data">${data.replaceAll('<', '\\u003c')}</script>\n` +
      `<script type="module">${script.replaceAll('</script', '<\\/script')}</script></body>`)
}
