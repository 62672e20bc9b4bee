// The chart below the picture: who was inside when, or how much each event of a server did, or the answers of a vote.
import { t } from './words.js'
import { badge, bar, circle, good, outline, path, rect, say, stroke, wideOf } from './pens.js'

const chart = { left: 20, right: 992, top: 516, bottom: 664 }

function frame(title, legend = []) {
  let out = rect(chart.left, chart.top, chart.right - chart.left, chart.bottom - chart.top, 'chart', { rx: 10 }) +
    say(chart.left + 12, chart.top + 26, 22, title)
  let x = chart.right - 12
  for (const name of legend.toReversed()) {
    const words = t(`key_of_${name}`)
    x -= wideOf(words, 20)
    out += say(x, chart.top + 25, 20, words, 'c-dim thin')
    x -= 40
    out += swatches[name](x, chart.top + 18)
    x -= 16
  }
  return out
}

const marks = {
  read: (x, y) => circle(x, y, 9, { fill: 'var(--paper)', stroke: 'var(--ink)', 'stroke-width': 4 }),
  write: (x, y) => bar(x - 9, y - 9, 18, 18, 'var(--ink)', { stroke: 'var(--paper)', 'stroke-width': 2 }),
  refused: (x, y) => badge('no', x, y, 14),
  killed: (x, y) => badge('dead', x, y, 15),
  frozen: (x, y) => badge('pause', x, y, 14),
}
const swatches = {
  read: (x, y) => marks.read(x + 16, y),
  write: (x, y) => marks.write(x + 16, y),
  both: (x, y) => bar(x - 4, y - 9, 34, 18, 'url(#redbar)', { stroke: 'var(--red)', 'stroke-width': 2 }),
  waits: (x, y) => stroke(x - 4, y, x + 30, y, 'var(--edge)', 5, { 'stroke-dasharray': '4 6' }),
}

/** The intervals with more than one stay, by segment. */
function overlaps(holds) {
  const found = []
  for (const [segment, own] of Map.groupBy(holds, (h) => h.segment)) {
    const edges = own.flatMap((h) => [[h.from, 1], [h.to, -1]])
    edges.sort((a, b) => a[0] - b[0] || a[1] - b[1])
    let held = 0
    let since = 0
    for (const [at, change] of edges) {
      held += change
      if (change > 0 && held === 2) since = at
      if (change < 0 && held === 1 && at > since) found.push({ from: since, to: at, segment })
    }
  }
  return found
}

/** What a stay excludes others from. */
const segmentOf = (one, h) => `${one.good ?? 0} ${h.segment ?? 0}`

/** Whether two stays at once violate the strategy's promise. An atomic write needs no exclusion. */
const excludes = (plan) => Boolean(plan && (plan.exclusive || plan.scope !== 'cluster'))

/** The rows of the chart: a request each if they are few, else a key or an instance. */
function rowsOf(m) {
  if (m.goods) return [0, 1, 2, 3].map((good) => ({ good, own: m.list.filter((one) => (one.good ?? 0) === good) }))
  if (m.list.length <= 8) return m.list.map((one) => ({ one, app: m.appOf(one), own: [one] }))
  return m.apps.map((app, i) => ({ app: m.numberOf(app) || i + 1, own: m.list.filter((one) => one.app === app) }))
}

/** Who is inside, when. Time begins at the first request. */
export function timeline(m) {
  const rows = rowsOf(m)
  const from = m.from
  const now = m.to
  const whole = Math.max(1e6, (now - from) * 1.02)
  const left = chart.left + 66
  const x = (at) => left + Math.max(0, Math.min(1, (at - from) / whole)) * (chart.right - 20 - left)
  const top = chart.top + 36
  const bottom = chart.bottom - 26
  const few = rows.some((r) => r.one)
  const ranOut = (one) => m.lostBy(one)?.over ?? Infinity
  const stays = m.list.flatMap((one) => (one.holds ?? []).map((h) => ({
    from: h.from, to: Math.min(h.to || now, ranOut(one)), segment: segmentOf(one, h),
  })))
  const found = excludes(m.plan) ? overlaps(stays) : []
  const flags = few ? m.leases.filter((l) => l.over && l.expired) : []
  const legend = [...(few || m.goods ? ['read', 'write'] : []), ...(found.length ? ['both'] : []),
    ...(few && m.shared ? ['waits'] : [])]
  const covered = flags.some((l) => x(l.over) < chart.left + 260)
  let out = frame(covered ? '' : t('holds'), flags.length ? [] : legend)
  const step = [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500].find((s) => whole / 1e6 / s <= 9) ?? 1000
  for (let s = 0; s * 1e6 <= whole; s += step) {
    const at = x(from + s * 1e6)
    out += stroke(at, top, at, bottom, 'var(--soft)', 2) +
      say(Math.min(at + (s ? 0 : 4), chart.right - 34), chart.bottom - 6, 20,
        t('seconds', { n: step < 1 ? s.toFixed(1) : Math.round(s) }), 'm c-dim thin')
  }
  const tall = (bottom - top) / Math.max(1, rows.length)
  rows.forEach((row, i) => {
    const y = top + (i + 0.5) * tall
    const thick = Math.min(26, tall - 6)
    if (i) out += stroke(chart.left, top + i * tall, chart.right, top + i * tall, 'var(--soft)', 2)
    out += headOf(row, y, Math.min(34, tall - 2))
    for (const one of row.own) out += lifeOf(m, one, { x, y, thick, now, found, marked: few || m.goods })
  })
  const over = m.zookeeper ? 'session_over' : 'lease_over'
  for (const l of flags) out += flagAt(x(l.over), bottom, t(over, { who: m.nameOf(l.req) }))
  if (m.running) out += stroke(x(now), top, x(now), bottom, 'var(--ink)', 3)
  return out
}

function headOf(row, y, size) {
  const x = chart.left + 33
  if (row.good !== undefined) return good(row.good, x, y, Math.min(11, size / 3), false)
  const shape = path(outline(row.app, x - size / 2, y - size / 2, size, size), 'box waits')
  return row.one ? shape + say(x, y + 8, Math.min(26, Math.max(20, size - 6)), row.one.name, 'm') : shape
}

/** A request's time: it waits, it is inside, it reads and it writes. */
function lifeOf(m, one, { x, y, thick, now, found, marked }) {
  let out = ''
  const holds = one.holds ?? []
  if (marked && m.exclusive && !m.goods && one.waits_at) {
    const inside = holds[0]?.from ?? (one.ended || now)
    out += stroke(x(one.waits_at), y, x(inside), y, 'var(--edge)', 5, { 'stroke-dasharray': '4 6' })
  }
  const lost = m.lostBy(one)
  const fault = m.faultOf(one)
  const dead = fault?.state === 'killed'
  for (const h of holds) {
    const to = h.to || now
    if (dead) {
      out += block(x(h.from), x(fault.from), y, thick, '')
      out += block(x(fault.from), x(lost?.over ?? now), y, thick, 'dead')
      continue
    }
    out += block(x(h.from), x(to), y, thick, '')
    for (const o of found.filter((o) => o.segment === segmentOf(one, h) && o.to > h.from && o.from < to)) {
      out += block(x(Math.max(o.from, h.from)), x(Math.min(o.to, to)), y, thick, 'bad')
    }
    if (lost && to > lost.over) out += withoutLock(x(lost.over), x(to), y, thick)
  }
  return marked ? out + marksOf(m, one, fault, x, y) : out
}

/** The time of a holder whose lease is over. */
function withoutLock(a, b, y, thick) {
  const words = t('without_lock')
  const w = wideOf(words, 20)
  const out = block(a, b, y, thick, 'bad')
  if (w + 16 > b - a) return out
  const middle = (a + b) / 2
  return out + bar(middle - w / 2, y - 11, w, 22, 'var(--paper)') + say(middle, y + 7, 20, words, 'm c-red')
}

function marksOf(m, one, fault, x, y) {
  let out = ''
  const at = (kind, time, value) => { out += marks[kind](x(time), y) + (m.goods ? '' : valueAt(x(time), y, value)) }
  if (fault && marks[fault.state]) at(fault.state, fault.from)
  const wrote = one.sold && one.wrote_at
  const close = wrote && x(wrote) - x(one.read_at) < wideOf(one.read, 22) + 32 // the write would cover what was read
  if (one.read_at && !one.replayed && !close) at('read', one.read_at, one.read)
  if (wrote) at('write', wrote, close ? `${one.read}→${one.wrote}` : one.wrote)
  const refused = one.phase === 'done' && !one.sold && !one.replayed && one.outcome !== 'no_reply'
  if (refused) at('refused', one.ended)
  return out
}

function block(a, b, y, thick, look) {
  const looks = { bad: ['url(#redbar)', '--red'], dead: ['var(--paper)', '--ink'] }
  const [fill, edge] = looks[look] ?? ['var(--bar)', '--bar-edge']
  return bar(a, y - thick / 2, Math.max(2, b - a), thick, fill,
    { stroke: `var(${edge})`, 'stroke-width': 3, ...(look === 'dead' ? { 'stroke-dasharray': '8 6' } : {}) })
}

function valueAt(x, y, value) {
  if (value === undefined) return ''
  const w = wideOf(value, 22) + 8
  const left = x + 10 + w > chart.right ? x - 14 - w : x + 14
  return bar(left, y - 12, w, 24, 'var(--paper)', { rx: 4 }) + say(left + 4, y + 8, 22, value)
}

/** The end of a lease: a post with a flag. */
function flagAt(x, bottom, words) {
  const w = wideOf(words, 22) + 24
  const side = x + w > chart.right ? -1 : 1
  const flag = `M${x} ${chart.top + 4}h${side * w}l${-side * 10} 16l${side * 10} 16h${-side * w}Z`
  return stroke(x, chart.top + 4, x, bottom, 'var(--amber)', 7) + path(flag, '', { fill: 'var(--amber)' }) +
    say(x + side * 9, chart.top + 29, 22, words, `on-ink ${side < 0 ? 'e' : ''}`)
}

/** A bar for each event of a server: how many were woken by a release, or sold by a write. With many bars only the
 * first has its number. */
export function tallied(title, unit, list, sum) {
  const pitch = Math.min(96, (chart.right - chart.left - 400) / list.length)
  const wide = pitch * (pitch > 40 ? 0.62 : 0.8)
  const most = Math.max(1, ...list)
  const base = chart.bottom - 10
  const high = base - chart.top - 66
  let out = frame(title)
  list.forEach((n, i) => {
    const x = chart.left + 24 + i * pitch
    const tall = Math.max(5, n / most * high)
    out += bar(x, base - tall, wide, tall, 'var(--flash)', { stroke: 'var(--amber)', 'stroke-width': 2 })
    if (i > 0 && pitch < 40) return
    out += say(x + wide / 2, base - tall - 8, 26, n, 'm')
    if (i) out += say(x - (pitch - wide) / 2, base - tall - 8, 26, '+', 'm c-dim')
  })
  return out + say(chart.right - 20, base - 12, 84, sum, 'e') + say(chart.right - 20, base - 84, 24, unit, 'e c-dim')
}

/** The answers of a vote. Counts are hidden while it is open. */
export function answers(vote, right) {
  const w = 316
  const total = Math.max(1, vote.votes.reduce((a, b) => a + b, 0))
  return vote.votes.map((n, i) => {
    const x = chart.left + i * (w + 12)
    const look = `chart answer ${i === right ? 'right' : ''}`
    const out = rect(x, chart.top, w, chart.bottom - chart.top, look, { rx: 12 }) +
      bar(x + 16, chart.top + 16, 56, 56, 'var(--paper)', { rx: 10, stroke: 'var(--ink)', 'stroke-width': 4 }) +
      say(x + 44, chart.top + 58, 40, i + 1, 'm') + say(x + 86, chart.top + 56, 30, t(`choice_${i}`)) +
      (i === right ? badge('yes', x + w - 34, chart.top + 34, 24) : '')
    if (vote.on) return out + say(x + 86, chart.top + 112, 26, t('hands_up'), 'c-dim thin')
    return out + bar(x + 18, chart.top + 92, Math.max(2, n / total * (w - 110)), 36, 'var(--bar)') +
      say(x + w - 18, chart.top + 124, 40, n, 'e')
  }).join('')
}
