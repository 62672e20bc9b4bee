// Joins the orders that read the same version by lines, over the instances.

const most = 3 // more lines and names would cover the requests

/** The pairs of orders on the page that read the same version, the latest first. */
function pairs(store, tokens) {
  const byNumber = new Map()
  for (const [id, token] of store.under('t')) if (tokens.has(id)) byNumber.set(token.n, { id, token })
  const found = []
  for (const one of byNumber.values()) {
    if (!one.token.twin) continue
    const next = (one.token.with ?? []).find((n) => n > one.token.n && byNumber.has(n))
    if (next) found.push([one, byNumber.get(next)])
  }
  return found.sort((a, b) => b[1].token.ended - a[1].token.ended).slice(0, most)
}

/** Draws the lines. Nothing is measured unless a pair or its place has changed, or svg.drawn is null. */
export function drawTies(svg, page, store, tokens, callName, say) {
  const list = pairs(store, tokens)
  const now = JSON.stringify(list.map(([a, b]) => [a.id, b.id, tokens.get(a.id).where, tokens.get(b.id).where,
    callName(a.token), callName(b.token)]))
  if (svg.drawn === now) return
  svg.drawn = now
  svg.dataset.ties = list.length
  const made = (name, values, text = '') => {
    const e = page.createElementNS('http://www.w3.org/2000/svg', name)
    for (const [key, value] of Object.entries(values)) e.setAttribute(key, value)
    e.textContent = text
    return e
  }
  const origin = list.length > 0 ? svg.getBoundingClientRect() : null
  const corners = new Map()
  const middle = (id) => {
    const b = tokens.get(id)
    const layer = b.parentNode
    if (!corners.has(layer)) corners.set(layer, layer.getBoundingClientRect())
    const corner = corners.get(layer)
    const [x, y, width] = b.where.split(' ').map(Number)
    return { x: corner.left - origin.left + x + width / 2, y: corner.top - origin.top + y }
  }
  svg.replaceChildren(...list.flatMap(([a, b], i) => {
    const [from, to] = [middle(a.id), middle(b.id)]
    const top = Math.max(16, Math.min(from.y, to.y) - 24 - 22 * i) // beside the others, and over no request
    const line = made('path', { d: `M${from.x} ${from.y} C${from.x} ${top} ${to.x} ${top} ${to.x} ${to.y}` })
    const text = say(`${callName(a.token)} + ${callName(b.token)}`, a.token.read)
    return [line, made('text', { x: (from.x + to.x) / 2, y: top + 2, 'text-anchor': 'middle' }, text)]
  }))
}
