// Tables of named figures as CSV.
export { save } from './download'

type Value = string | number | boolean | null | undefined

/** Records as CSV: the columns are all their names, in the order in which they first appear. */
export function csvOfRecords(records: readonly Record<string, Value>[]): string {
  const names = [...new Set(records.flatMap((record) => Object.keys(record)))]
  const lines = [names, ...records.map((record) => names.map((name) => record[name] ?? ''))]
  return '\ufeff' + lines.map((cells) => cells.map(cell).join(',')).join('\r\n') + '\r\n'
}

function cell(value: Value): string {
  if (typeof value === 'number') return String(value)
  const text = String(value)
  // A spreadsheet runs what begins like a formula; a quote before it keeps it text.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
