// The parts of the picture as SVG markup, in pixels of a page of 1280 x 720. The same things look the same everywhere:
// the outline of a request is its instance, its border what it does, and its badge how it ended.
import { t, wide } from './words.js'

const escaped = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const text = (words) => String(words).replace(/[&<>"]/g, (c) => escaped[c])
const mark = (name, values, words = '') =>
  `<${name}${Object.entries(values).map(([k, v]) => ` ${k}="${text(v)}"`).join('')}>${text(words)}</${name}>`

export const rect = (x, y, width, height, look, more = {}) => mark('rect',
  { x, y, width, height, class: look, ...more })
export const bar = (x, y, width, height, fill, more = {}) =>
  mark('rect', { x, y, width: Math.max(0, width), height, fill, ...more })
export const stroke = (x1, y1, x2, y2, colour, width, more = {}) =>
  mark('line', { x1, y1, x2, y2, stroke: colour, 'stroke-width': width, ...more })
export const path = (d, look, more = {}) => mark('path', { d, ...(look ? { class: look } : { fill: 'none' }), ...more })
export const circle = (x, y, r, more) => mark('circle', { cx: x, cy: y, r, ...more })
export const say = (x, y, size, words, look = '') => mark('text', { x, y, 'font-size': size, class: look }, words)

/** The width of words in pixels: to measure them would cost a layout. */
export const wideOf = (words, size) => wide(String(words).replace('→', '→→'), size * 0.66)

/** The outline of an instance's requests: the first square, the second round, the third with cut corners. */
export function outline(app, x, y, w, h) {
  if (app % 3 === 0) {
    const c = Math.min(24, h * 0.3)
    return `M${x + c} ${y}H${x + w - c}L${x + w} ${y + c}V${y + h - c}L${x + w - c} ${y + h}H${x + c}` +
      `L${x} ${y + h - c}V${y + c}Z`
  }
  const r = app % 3 === 2 ? Math.min(w, h) / 2 : Math.min(9, h / 5)
  const turn = (a, b) => `A${r} ${r} 0 0 1 ${a} ${b}`
  return `M${x + r} ${y}H${x + w - r}${turn(x + w, y + r)}V${y + h - r}${turn(x + w - r, y + h)}H${x + r}` +
    `${turn(x, y + h - r)}V${y + r}${turn(x + r, y)}Z`
}

const signs = {
  yes: ['--green', (s) => `M${-s} 0L${-s / 4} ${s * 0.7}L${s} ${-s * 0.7}`],
  no: ['--red', (s) => `M${-s} ${-s}L${s} ${s}M${s} ${-s}L${-s} ${s}`],
  dead: ['--ink', (s) => `M${-s} ${-s}L${s} ${s}M${s} ${-s}L${-s} ${s}`],
  pause: ['--amber', (s) => `M${-s * 0.5} ${-s}V${s}M${s * 0.5} ${-s}V${s}`],
  again: ['--violet', (s) => `M${s} ${-s * 0.2}A${s} ${s} 0 1 0 ${s * 0.75} ${s * 0.65}` +
    `M${s * 1.1} ${-s * 0.9}V${-s * 0.1}H${s * 0.3}`],
  late: ['--red', (s) => `M0 ${-s}V0L${s * 0.75} ${s * 0.45}`],
  twin: ['--red', (s) => `M0 ${-s}V${s * 0.3}M0 ${s * 0.85}V${s}`],
}

export function badge(kind, x, y, r) {
  const [colour, draw] = signs[kind]
  const dial = kind === 'late'
    ? circle(x, y, r * 0.72, { fill: 'none', stroke: 'var(--paper)', 'stroke-width': r * 0.12 }) : ''
  return circle(x, y, r, { fill: `var(${colour})`, stroke: 'var(--paper)', 'stroke-width': 3 }) + dial +
    path(draw(r * 0.48), '', {
      transform: `translate(${x} ${y})`, stroke: 'var(--paper)', 'stroke-width': r * 0.26, 'stroke-linecap': 'round',
      'stroke-linejoin': 'round',
    })
}

/** A fence: a plate with six sides. */
export function fence(n, x, y, r = 27) {
  const at = (i) => `${x + r * Math.cos(i * Math.PI / 3)} ${y + r * Math.sin(i * Math.PI / 3)}`
  return path(`M${[0, 1, 2, 3, 4, 5].map(at).join('L')}Z`, 'plate') + say(x, y + r * 0.42, r * 1.2, n, 'm on-ink')
}

const forms = [
  ['--blue', (r) => `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`],
  ['--violet', (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`],
  ['--green', (r) => `M0 ${-r * 1.3}L${r * 1.2} ${r}H${-r * 1.2}Z`],
  ['--amber', (r) => `M0 ${-r * 1.3}L${r * 1.3} 0L0 ${r * 1.3}L${-r * 1.3} 0Z`],
]

/** A good: its colour, its form and its letter say the same. */
export function good(i, x, y, r, named = true) {
  const [colour, form] = forms[i % forms.length]
  const letter = named ? say(x, y + r * (i % forms.length === 2 ? 0.75 : 0.42), r * 1.2, 'PQRS'[i], 'm on-ink') : ''
  return path(form(r), '', { fill: `var(${colour})`, transform: `translate(${x} ${y})` }) + letter
}

/** An idempotency key: a hollow bow, of one form and colour for each key, and a bit. */
export function key(i, x, y, r) {
  const [colour, bow] = forms[i % forms.length]
  const look = { stroke: `var(${colour})`, 'stroke-width': r * 0.42 }
  return path(`M${x + r * 0.8} ${y}H${x + r * 2.9}M${x + r * 2.1} ${y}v${r * 0.8}M${x + r * 2.75} ${y}v${r * 0.8}`, '',
    look) + path(bow(r * 0.75), '', { ...look, transform: `translate(${x} ${y})` })
}

export function padlock(x, y, s, closed, colour = '--amber') {
  const bow = closed ? `M${x - s * 0.55} ${y}v${-s * 0.55}a${s * 0.55} ${s * 0.55} 0 0 1 ${s * 1.1} 0v${s * 0.55}`
    : `M${x - s * 0.55} ${y}v${-s * 0.7}a${s * 0.55} ${s * 0.55} 0 0 1 ${s * 1.05} ${-s * 0.25}`
  return path(bow, '', { stroke: `var(${colour})`, 'stroke-width': s * 0.26 }) +
    bar(x - s * 0.85, y, s * 1.7, s * 1.25, `var(${colour})`, { rx: 4 }) +
    circle(x, y + s * 0.55, s * 0.2, { fill: 'var(--paper)' })
}

const sizeOf = (h) => Math.round(h * (h > 50 ? 0.62 : 0.56))
const quantityOf = (h) => Math.max(20, Math.round(h * 0.45))

/** What a request carries beside its name: a good, or an idempotency key. */
const tagWidth = (tag) => tag ? (tag.good === undefined ? 1.4 : 0.8) : 0

/** The width of a request. */
export function tokenWidth({ h, name, q, tag }) {
  if (h <= 20) return 20
  return Math.max(h, h * (0.5 + tagWidth(tag)) + wideOf(name, sizeOf(h)) + (q ? wideOf(q, quantityOf(h)) + h * 0.2 : 0))
}

/** The radius of a request's badge. */
function badgeOf(h) {
  if (h > 90) return 25
  return h > 54 ? 21 : 14
}

/** A request around the point 0, 0. */
export function requestBox(one) {
  const { h, name, q, app = 1, state = '', badge: sign, plate, tag, star, low } = one
  const w = tokenWidth(one)
  const left = -w / 2
  let out = star ? burst(h) : ''
  out += path(outline(app, left, -h / 2, w, h), `box ${state}`)
  if (h <= 20) return out + (sign === 'yes' ? path('M-5 0l4 5l7 -9', '',
    { stroke: 'var(--green)', 'stroke-width': 3 }) : '')
  if (state === 'again') out += path(outline(app, left, -h / 2, w, h), '',
    { stroke: 'var(--paper)', 'stroke-width': 3 })
  const halo = state === 'twin' || state === 'dead' ? 'halo' : ''
  let x = q || tag ? left + h * 0.25 : 0
  out += say(x, sizeOf(h) * 0.36, sizeOf(h), name, `${q || tag ? '' : 'm'} ${halo}`)
  x += wideOf(name, sizeOf(h)) + h * 0.16
  if (tag) {
    out += tag.good === undefined ? key(tag.key, x + h * 0.3, 0, h * 0.31) : good(tag.good, x + h * 0.3, 0, h * 0.31)
    x += h * tagWidth(tag)
  }
  if (q) out += say(x, quantityOf(h) * 0.36, quantityOf(h), q, halo)
  if (state === 'dead') {
    out += path(`M${left - 8} ${h / 2 + 8}L${left + w + 8} ${-h / 2 - 8}`, '',
      { stroke: 'var(--ink)', 'stroke-width': 6 })
  }
  const edge = (inset) => (low ? 1 : -1) * (h / 2 - inset) // the marks stay in the row
  if (sign) out += badge(sign, left + w + (h > 54 ? 4 : -6), edge(0.6 * badgeOf(h)), badgeOf(h))
  if (plate && h > 50) out += fence(plate, left - 2, edge(10), h > 90 ? 29 : 22)
  return out
}

/** A star: the lock's server has just woken it. */
function burst(h) {
  const n = 12
  const tip = (i) => {
    const r = h * (i % 2 ? 0.54 : 0.68)
    return `${r * Math.cos(i * Math.PI / n)} ${r * Math.sin(i * Math.PI / n)}`
  }
  return path(`M${Array.from({ length: 2 * n }, (_, i) => tip(i)).join('L')}Z`, 'burst')
}

/** An arrow from x to end. */
export function arrow(x, end, y, colour, dash) {
  const back = end < x ? 1 : -1
  const fill = `var(${colour})`
  const head = `M${end + back * 24} ${y - 16}L${end} ${y}L${end + back * 24} ${y + 16}Z`
  return path(`M${x} ${y}H${end + back * 16}`, 'arrow',
    { stroke: fill, ...(dash ? { 'stroke-dasharray': '14 7' } : {}) }) + path(head, '', { fill })
}

/** Words on a plate. */
export function label(x, y, words, colour, size = 34) {
  const half = Math.max(24, wideOf(words, size) / 2 + 10)
  return bar(x - half, y - 22, 2 * half, 44, 'var(--paper)', { rx: 8, stroke: `var(${colour})`, 'stroke-width': 4 }) +
    say(x, y + 12, size, words, `m c${colour.slice(1)}`)
}

/** A closed barrier before a gate: whoever stands there waits. */
export function barrier(x, y, h) {
  const n = 5
  return Array.from({ length: n }, (_, i) => bar(x, y - h / 2 + i * h / n, 20, h / n,
    i % 2 ? 'var(--paper)' : 'var(--ink)', { stroke: 'var(--ink)', 'stroke-width': 3 })).join('')
}

/** What is left of a lease or a session, in seconds. */
export function remaining(x, y, left, full, what) {
  return bar(x - 55, y, 110, 30, 'var(--paper)', { stroke: 'var(--amber)', 'stroke-width': 3 }) +
    (left > 0 ? bar(x - 53, y + 2, 106 * Math.min(1, left / full), 26, 'url(#amberbar)') : '') +
    say(x, y + 25, 24, t('seconds', { n: Math.max(0, left).toFixed(1) }), `m halo ${left > 0 ? '' : 'c-red'}`) +
    say(x, y + 54, 20, what, 'm')
}
