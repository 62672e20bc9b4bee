// Joins the orders that read the same version by lines, over the instances.
import { wide } from './words.js'

const most = 3 // more lines and names would cover the requests
const apart = 22 // px between two lines that are above each other: the height of a text

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
  return found.sort((a, b) => b[1].token.ended - a[1].token.ended)
}

/** Returns the lines for pairs of boxes, the most important pair first. A line goes up from the middle of each box to a
 * height of its own. Boxes have x, y, width and height, by their ids. */
function routes(list, boxes) {
  const lines = list.slice(0, most).map((pair) => ({
    pair, ends: pair.map((id) => boxes.get(id)).map((box) => ({ x: box.x + box.width / 2, y: box.y })),
  }))
  const top = Math.min(...lines.flatMap((l) => l.ends.map((e) => e.y))) - 10
  while (lines.length > 1 && top < apart * lines.length) lines.pop() // there is no room for its text
  return lines.map((line, i) => ({ ...line, y: Math.max(apart, top) - apart * i }))
}

/** Draws the lines. Nothing is measured unless svg.drawn is null, and nothing drawn unless a request has moved. */
export function drawTies(svg, page, store, tokens, callName, say) {
  const list = pairs(store, tokens)
  const now = list.length === 0 ? '' : JSON.stringify([list.map((pair) => pair.map(({ id, token }) => [id, callName(token)])),
    [...tokens.values()].map((b) => b.where)])
  if (svg.drawn === now) return
  if (svg.drawn === null) svg.corners = new Map()
  svg.drawn = now
  const corner = (e) => {
    if (!svg.corners.has(e)) svg.corners.set(e, e.getBoundingClientRect())
    return svg.corners.get(e)
  }
  const boxes = new Map()
  if (list.length > 0) {
    const origin = corner(svg)
    for (const [id, b] of tokens) {
      const layer = corner(b.parentNode)
      const [x, y, width] = b.where.split(' ').map(Number)
      boxes.set(id, {
        x: layer.left - origin.left + x, y: layer.top - origin.top + y, width, height: parseFloat(b.style.height),
      })
    }
  }
  const lines = routes(list.map((pair) => pair.map((one) => one.id)), boxes)
  svg.dataset.ties = lines.length
  const made = (name, values, text = '') => {
    const e = page.createElementNS('http://www.w3.org/2000/svg', name)
    for (const [key, value] of Object.entries(values)) e.setAttribute(key, value)
    e.textContent = text
    return e
  }
  const paths = lines.flatMap(({ ends: [a, b], y }) => [
    made('path', { d: `M${a.x} ${a.y} V${y} H${b.x} V${b.y}` }),
    ...[a, b].map((e) => made('circle', { cx: e.x, cy: e.y, r: 4 })),
  ])
  const texts = lines.map(({ pair, ends, y }) => {
    const [a, b] = pair.map((id) => store.get(`t:${id}`))
    const text = say(`${callName(a)} + ${callName(b)}`, a.read)
    const reach = wide(text, 10) / 2
    const x = Math.max(reach, Math.min(corner(svg).width - reach, (ends[0].x + ends[1].x) / 2))
    return made('text', { x, y: y - 5, 'text-anchor': 'middle' }, text)
  })
  svg.replaceChildren(...paths, ...texts)
}
