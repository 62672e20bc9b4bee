// Joins the orders that read the same version by lines, over the instances.
import { wide } from './words.js'

const most = 3 // more lines and names would cover the requests
const apart = 22 // px between two lines that are above each other: the height of a text
const clear = 8 // px between two lines that are side by side
const margin = 11 // px beside the text of a request

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

/** Returns places at which a line can leave a box upwards, each with its cost: it leaves in the middle or, where that
 * would cross the text of a box above, beside the text. It keeps clear of the lines at the xs that are taken. */
function exits(box, all, taken) {
  const above = all.filter((o) => o !== box && o.y < box.y)
  const text = (o, x) => x > o.x + margin && x < o.x + o.width - margin
  const xs = [box.x + box.width / 2, box.x + box.width - clear]
  for (let x = box.x + clear; x < box.x + box.width - clear; x += clear) xs.push(x)
  return xs.filter((x) => taken.every((t) => Math.abs(t - x) >= clear)).map((x) => ({
    x, y: box.y, cost: above.filter((o) => text(o, x)).length + Math.abs(x - box.x - box.width / 2) / 1000,
  }))
}

const between = (x, [a, b]) => a < x && x < b

/** Returns the lines for pairs of boxes, the most important pair first. A line goes up from the two ends on its boxes to
 * a height of its own, above all that is joined. No two lines cross: a pair whose line would cross an earlier one has
 * none. Boxes have x, y, width and height, by their ids. */
export function routes(list, boxes) {
  const all = [...boxes.values()]
  const lines = []
  for (const pair of list) {
    if (lines.length === most) break
    const taken = lines.flatMap((l) => l.ends.map((e) => e.x))
    const [from, to] = pair.map((id) => exits(boxes.get(id), all, taken))
    let best = null
    for (const a of from) {
      for (const b of to) {
        const over = [Math.min(a.x, b.x), Math.max(a.x, b.x)]
        const within = over[1] - over[0]
        const cost = a.cost + b.cost - within / 1e6 // of two that are equal, the one that leaves more room within
        if (within < clear || best && best.cost <= cost) continue
        if (lines.every((l) => between(l.over[0], over) === between(l.over[1], over))) best = { pair, ends: [a, b], over, cost }
      }
    }
    if (best) lines.push(best)
  }
  const top = () => Math.min(...lines.flatMap((l) => l.ends.map((e) => e.y))) - 10
  while (lines.length > 1 && top() < apart * lines.length) lines.pop() // there is no room for its text
  lines.sort((a, b) => a.over[1] - a.over[0] - b.over[1] + b.over[0]) // what is within another is below it
  const lowest = Math.max(apart, top())
  return lines.map(({ pair, ends }, i) => ({ pair, ends, y: lowest - apart * i }))
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
