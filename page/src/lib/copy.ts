// Text onto the clipboard.

/** True when the text is on the clipboard, as it stands. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copyBySelection(text) // an address that is not secure has no clipboard of its own
  }
}

function copyBySelection(text: string): boolean {
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'hidden'
  area.readOnly = true
  const focused = document.activeElement as HTMLElement | null
  document.body.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  focused?.focus()
  return done
}
