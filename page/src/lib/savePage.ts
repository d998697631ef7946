// The page as one HTML file that works from a disk: its script, its styles and the answers it has had.
//
// Every head of the trace is fetched first, within a budget, so that the file can show more than was looked at.
import { kinds } from './types'
import { session } from '../session.svelte'
import { recorded, type Saved } from './api'
import { fileName, save } from './download'

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
  for (const path of ['shapes', 'steps?k=10', 'lens?k=5']) await session.json(path).catch(() => null)
  const cells = trace.rows.encoder + trace.rows.decoder
  for (const kind of kinds) {
    await session.overview(kind)
    const { layers, heads } = model.heads[kind]
    if (layers * heads * 3 * cells * cells * 9 > BUDGET) continue
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
