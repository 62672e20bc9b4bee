// The picture of a run: instances, who waits, the lock, the critical section and the stock, always at the same places.
import { t } from './words.js'
import {
  arrow, badge, bar, barrier, fence, key, label, outline, padlock, path, rect, remaining, say, stroke, tokenWidth,
} from './pens.js'
import { answers, tallied, timeline } from './chart.js'

const board = { left: 20, right: 992, top: 192, head: 26, bottom: 508 }
const area = {
  names: { left: 20, right: 150 }, waiting: { left: 156, right: 500 }, lock: { left: 512, right: 642 },
  inside: { left: 648, right: 992 }, stock: { left: 1044, right: 1260, top: 192, bottom: 664 },
}
const topOf = board.top + board.head
const gateX = (area.lock.left + area.lock.right) / 2
const within = ['in', 'read', 'thinks', 'writes', 'wrote']

/** What the picture is made of: the run, its requests and its servers. */
export function modelOf(store, about, now) {
  const run = store.get('run') ?? { n: 0 }
  const plan = run.plan
  const vote = store.get('voting')
  const list = [...store.under('t')].map(([id, one]) => ({
    ...one, id, name: one.who || String(one.n), sold: one.phase === 'done' && one.outcome === 'accepted' && !one.replayed,
  })).sort((a, b) => a.n - b.n)
  const numberOf = (app) => about.apps.indexOf(app) + 1
  const m = {
    run, plan, list, now, vote, numberOf, appOf: (one) => numberOf(one.app) || 1, leases: store.get('leases') ?? [],
    goods: plan?.goods > 1, masters: plan?.strategy === 'redlock' && store.get('masters')?.answers,
    exclusive: Boolean(plan?.exclusive), shared: plan?.exclusive && plan.scope === 'cluster',
    process: plan?.scope === 'process', queue: plan?.strategy === 'zk-sequential' ? store.get('queue')?.answers ?? [] : [],
    stop: store.get('stop'), verdict: store.get('verdict') ?? {},
  }
  m.running = list.some((one) => one.phase !== 'done')
  m.from = list.length ? Math.min(...list.map((one) => one.fired || now)) : now
  m.to = m.running ? Math.max(now, m.from) : Math.max(m.from, ...list.map((one) => one.ended || 0))
  m.nameOf = (req) => list.find((one) => one.id === req)?.name ?? ''
  m.bands = (server) => store.get(`faults:${server}`) ?? []
  m.stateOf = (server) => store.get(`server:${server}`) ?? 'up'
  m.faultOf = (one) => m.bands(one.app).find((b) => b.from > one.fired && (!one.ended || b.from <= one.ended))
  const few = plan?.scene && plan.requests <= 3 && plan.scene !== 'same_key'
  m.apps = about.apps.filter((app, i) => list.some((one) => one.app === app) ||
    (plan?.instances === 1 ? i === 0 : few ? i < 2 : true)).slice(0, 4)
  if (!few && list.length > 0 && plan?.instances !== 1 && list.length < 3 && !m.running) m.apps = about.apps.slice(0, 3)
  const n = Math.max(list.length, plan?.requests ?? 0)
  m.h = n <= 3 ? (m.apps.length > 2 ? 68 : 100) : n <= 8 ? 54 : n <= 40 ? 40 : 20
  return m
}

/** Returns the picture: what is behind the requests, the requests with their places, and what is before them. */
export function pictureOf(m) {
  const p = { back: '', front: '', tokens: [], overlap: 0 }
  if (!m.plan) return p
  const crowd = m.shared && !m.goods && Math.max(m.list.length, m.plan.requests) > 8
  const lanes = m.goods ? [0, 1, 2, 3] : crowd ? [0] : m.apps
  const tall = (board.bottom - topOf) / lanes.length
  p.back += heads(m, crowd || m.goods) + gate(m, tall)
  lanes.forEach((lane, i) => {
    const own = m.list.filter((one) => m.goods ? (one.good ?? 0) === lane : crowd || one.app === lane || !one.app
      && i === 0)
    const box = { top: topOf + i * tall, bottom: topOf + (i + 1) * tall - 6 }
    p.back += floor(m, lane, box)
    fill(m, p, own, box, lane, crowd)
  })
  p.back += shelf(m)
  if (m.vote && (m.vote.on || m.vote.votes.some((n) => n > 0))) p.back += answers(m.vote)
  else p.back += below(m, p)
  return p
}

function heads(m, joined) {
  let out = ''
  for (const place of ['waiting', 'lock', 'inside']) {
    out += say((area[place].left + area[place].right) / 2, board.top + 20, 22, t(`place_${place}`), 'm c-dim')
  }
  const tall = (board.bottom - topOf) / m.apps.length
  m.apps.forEach((app, i) => {
    const y = topOf + i * tall
    const state = m.stateOf(app)
    if (!joined) out += rect(board.left, y, board.right - board.left, tall - 6, `row ${state}`, { rx: 10 })
    const up = state === 'up'
    out += path(outline(m.numberOf(app), area.names.left + 10, y + tall / 2 - (up ? 18 : 36), 26, 26), 'box waits') +
      say(area.names.left + 44, y + tall / 2 + (up ? 3 : -15), 24, app, 'halo')
    if (!up) {
      out += badge(state === 'frozen' ? 'pause' : 'dead', area.names.left + 24, y + tall / 2 + 16, 15) +
        say(area.names.left + 46, y + tall / 2 + 23, 20, t(state), 'halo')
    }
  })
  return joined ? out + rect(area.waiting.left, topOf, area.waiting.right - area.waiting.left,
    board.bottom - 6 - topOf, 'row', { rx: 10 }) : out
}

function floor(m, lane, { top, bottom }) {
  const faulted = !m.goods && m.bands && m.stateOf(String(lane)) !== 'up'
  if (faulted) return ''
  return rect(area.inside.left, top + 2, area.inside.right - area.inside.left - 2, bottom - top - 4, 'inside',
    { rx: 8 })
}

/** The lock: one gate for all instances, a gate for each, or none. It says who holds it. */
function gate(m, tall) {
  const { left, right } = area.lock
  const bottom = board.bottom - 6
  if (m.goods) return [0, 1, 2, 3].map((good) => smallGate(m, topOf + (good + 0.5) * tall - 3, good)).join('')
  if (m.process) return m.apps.map((app, i) => smallGate(m, topOf + (i + 0.5) * tall - 3, undefined, app)).join('')
  const whole = (look) => rect(left, topOf, right - left, bottom - topOf, `gate ${look}`, { rx: 12 })
  if (!m.shared) {
    return whole('none') + padlock(gateX, topOf + 110, 26, false, '--edge') +
      path(`M${gateX - 48} ${topOf + 160}L${gateX + 48} ${topOf + 70}`, '',
        { stroke: 'var(--ink)', 'stroke-width': 8 }) +
      say(gateX, topOf + 200, 25, t('no_lock'), 'm')
  }
  if (m.masters) return whole('') + circles(m)
  const { one, lease, ended } = holderOf(m)
  const open = !one || ended
  let out = whole(open ? 'free' : '') + padlock(gateX, topOf + 44, 23, !open)
  if (one) {
    const size = one.name.length > 2 ? 34 : 56
    out += path(outline(m.appOf(one), gateX - 44, topOf + 78, 88, 88), `box ${ended ? 'no' : 'in'}`) +
      say(gateX, topOf + 122 + size * 0.36, size, one.name, 'm')
    if (ended) out += path(`M${gateX - 50} ${topOf + 172}L${gateX + 50} ${topOf + 72}`, '',
      { stroke: 'var(--red)', 'stroke-width': 9 })
  } else out += say(gateX, topOf + 130, 30, t('open'), 'm')
  if (one && lease) {
    const what = m.plan.strategy.startsWith('zk-') ? 'session' : 'lease_word'
    const times = lease.times ? ` ↻${lease.times}` : ''
    out += remaining(gateX, topOf + 184, ended ? 0 : leftOf(m, lease), lease.full / 1000, t(what) + times)
  }
  return out + say(gateX, board.bottom - 14, 20, serverOf(m.plan), 'm c-amber')
}

const serverOf = (plan) => plan.strategy.startsWith('zk-') ? 'ZooKeeper' : plan.strategy.startsWith('mysql') ? 'MySQL' : 'Redis'

/** Who holds the lock, as its server says. Until it has said so, it is whoever is inside. */
function holderOf(m, good = 0) {
  const own = m.leases.filter((l) => (l.good ?? 0) === good)
  const lease = own.at(-1)
  const found = lease && m.list.find((one) => one.id === lease.req)
  const inside = m.list.find((one) => (one.good ?? 0) === good && within.includes(one.phase) && one.id !== lease?.req)
  if (lease && !lease.over && found && !(inside && found.phase === 'done')) return { one: found, lease }
  if (inside && !(lease?.expired && inside.fired < lease.from)) return { one: inside }
  if (lease?.over && lease.expired && found) return { one: found, lease, ended: true }
  return {}
}

/** The seconds that a lease still has. A session of ZooKeeper runs out from when its instance died or froze. */
function leftOf(m, lease) {
  if (lease.left) return Math.max(0, lease.left / 1000 - (m.now - lease.at) / 1e6)
  const one = m.list.find((one) => one.id === lease.req)
  const fault = one && m.bands(one.app).find((b) => b.from > lease.from)
  return Math.max(0, lease.full / 1000 - (fault ? (m.now - fault.from) / 1e6 : 0))
}

function smallGate(m, y, good, app) {
  const inside = m.list.find((one) => within.includes(one.phase)
    && (good === undefined ? one.app === app : (one.good ?? 0) === good))
  const high = good === undefined ? 86 : 62
  let out = rect(area.lock.left, y - high / 2, 130, high, `gate ${inside ? '' : 'free'}`, { rx: 12 }) +
    padlock(area.lock.left + 30, y - 10, 16, Boolean(inside))
  if (good !== undefined) return out + key(good, area.lock.left + 70, y, 17)
  if (inside) out += path(outline(m.numberOf(app), area.lock.left + 58, y - 30, 60, 60), 'box in') +
    say(area.lock.left + 88, y + 12, inside.name.length > 2 ? 24 : 34, inside.name, 'm')
  return out
}

/** The masters of Redlock: each says who has the key. A majority is the lock. */
function circles(m) {
  const x = area.lock.left + 78
  let out = ''
  const counts = new Map()
  m.masters.forEach((answer, i) => {
    const y = topOf + 29 + i * 46
    const down = answer === 'down'
    const name = m.nameOf(answer)
    if (name) counts.set(name, (counts.get(name) ?? 0) + 1)
    out += say(area.lock.left + 28, y + 8, 22, i + 1, 'm c-amber') +
      `<circle cx="${x}" cy="${y}" r="20" class="master ${down ? 'down' : name ? 'held' : ''}"/>`
    if (down) out += path(`M${x - 14} ${y - 14}l28 28m0 -28l-28 28`, '', { stroke: 'var(--ink)', 'stroke-width': 7 })
    else out += say(x, y + 10, 28, name, 'm')
  })
  const most = Math.max(0, ...counts.values())
  const has = most > m.masters.length / 2
  return out + say(gateX, board.bottom - 20, 30, t('of_masters', { n: most, of: m.masters.length }), has ? 'm'
    : 'm c-red')
}

/** Puts the requests of a lane into their places. */
function fill(m, p, own, box, lane, crowd) {
  const dots = m.h <= 20
  const few = m.list.length <= 3
  const done = own.filter((one) => one.phase === 'done')
  const went = (one) => one.holds?.length > 0
  let waiting = own.filter((one) => one.phase === 'sent' || one.phase === 'waits')
  if (m.queue.length) waiting.sort((a, b) => m.queue.indexOf(a.id) - m.queue.indexOf(b.id))
  let inside = own.filter((one) => within.includes(one.phase))
  const left = done.filter((one) => one.replayed || !went(one) && !one.sold)
  const over = done.filter((one) => !left.includes(one)).sort((a, b) => b.ended - a.ended)
  const still = few || dots || m.list.length <= 8
  if (still) waiting = [...left, ...waiting]
  inside = dots ? [...inside, ...over] : few ? [...inside, ...over].sort((a, b) => a.n - b.n) : [...inside,
    ...over.slice(0, crowd ? 1 : 4)]
  const middle = (box.top + box.bottom) / 2
  const closed = waiting.some((one) => one.phase !== 'done') && (m.process
    || m.shared) && (inside.some((one) => one.phase !== 'done') || few && m.leases.at(-1) && !m.leases.at(-1).over)
  const room = { left: area.waiting.left + 4, right: area.waiting.right - (closed && !crowd ? 32 : 6), ...box }
  const rest = flow(waiting.map((one) => faceOf(m, one, false)), room, -1, p)
  if (rest > 0) p.front += say(area.waiting.left + 10, box.bottom - 8, 22, t('hidden', { n: rest }), 'halo')
  if (closed && !crowd) p.back += barrier(area.lock.left - 26, middle, Math.min(104, box.bottom - box.top - 12))
  if (m.queue.length && crowd) p.back += queueLine(p.tokens)
  if (m.plan.strategy === 'merged' && dots) batches(m, p, inside, box)
  else {
    const more = flow(inside.map((one) => faceOf(m, one, true, crowd ? 56 : m.h)),
      { left: area.inside.left + 8, right: area.inside.right - 30, ...box }, few ? 0 : 1, p)
    if (more > 0) p.front += say(area.inside.right - 12, box.bottom - 8, 22, t('hidden', { n: more }), 'e halo')
  }
  if (few) for (const one of own) p.front += reachesStore(m, p, one)
}

/** Places requests beside each other: from the gate on to the left, to the right, or in the middle. Returns how many
 * have no room. */
function flow(faces, room, way, p) {
  if (faces.length === 0) return 0
  const { h } = faces[0]
  const gap = h <= 20 ? 5 : 8
  const lines = [[]]
  let used = 0
  for (const f of faces) {
    if (used + f.w > room.right - room.left && lines.at(-1).length) {
      lines.push([])
      used = 0
    }
    lines.at(-1).push(f)
    used += f.w + gap
  }
  const fit = Math.max(1, Math.floor((room.bottom - room.top - 4) / (h + gap)))
  const shown = lines.slice(0, fit)
  const middle = (room.top + room.bottom) / 2
  shown.forEach((line, i) => {
    const y = middle + (i - (shown.length - 1) / 2) * (h + gap)
    const whole = line.reduce((sum, f) => sum + f.w + gap, -gap)
    let x = way < 0 ? room.right : way > 0 ? room.left : (room.left + room.right - whole) / 2
    for (const f of line) {
      p.tokens.push({ ...f, x: way < 0 ? x - f.w / 2 : x + f.w / 2, y })
      x += (way < 0 ? -1 : 1) * (f.w + gap)
    }
  })
  return faces.length - shown.reduce((sum, line) => sum + line.length, 0)
}

/** How a request looks. */
function faceOf(m, one, inside, h = m.h) {
  const fault = one.phase !== 'done' && one.app && m.stateOf(one.app)
  const dead = one.outcome === 'no_reply' || fault === 'killed'
  const lost = m.leases.find((l) => l.req === one.id && l.expired && l.over)
  const late = lost && (one.wrote_at > lost.over || one.than)
  const [state, sign] = dead ? ['dead', 'dead'] : one.replayed ? ['again', 'again'] : one.twin && one.sold ? ['twin',
    late ? 'late' : 'twin']
    : one.sold ? ['sold', 'yes'] : one.phase === 'done' ? ['no', late ? 'late'
      : 'no'] : fault === 'frozen' ? ['frozen', 'pause']
    : within.includes(one.phase) ? ['in', ''] : ['waits', '']
  const wrote = one.wrote !== undefined && (one.sold || one.phase === 'wrote')
  const q = !inside || one.read === undefined || one.replayed ? '' : wrote ? `${one.read}→${one.wrote}` : String(one.read)
  const keyed = m.goods ? { key: one.good ?? 0 } : m.plan.scene === 'same_key' ? { key: (one.same || one.n) === 1 ? 0
    : 1 } : undefined
  const face = {
    id: one.id, one, h: one.name.length > 6 ? Math.min(h, 40) : h, name: one.name, q, app: m.appOf(one), state, badge: sign, keyed, low: one.twin && one.n === 2,
    plate: m.plan.fenced && m.plan.scene?.startsWith('frozen') ? one.fence : 0, star: isWoken(m, one),
  }
  return { ...face, w: tokenWidth(face) }
}

/** Whether a request has just been woken: at a stop, by the latest release. */
function isWoken(m, one) {
  const last = one.woken?.at(-1)
  if (!last || one.phase === 'done') return false
  const released = Math.max(0, ...m.list.flatMap((other) => (other.holds ?? []).map((h) => h.to ?? 0)))
  return m.stop?.on ? last >= released - 1e5 : m.now - last < 6e5
}

function queueLine(tokens) {
  let out = ''
  for (let i = 1; i < tokens.length; i++) {
    out += stroke(tokens[i - 1].x, tokens[i - 1].y, tokens[i].x, tokens[i].y, 'var(--edge)', 6)
  }
  return out
}

/** The sales of a batch in a frame: each is one write. */
function batches(m, p, inside, box) {
  let x = area.inside.left + 8
  const known = [...Map.groupBy(inside, (one) => one.batch || one.id).values()].sort((a, b) => a[0].n - b[0].n)
  const columns = 6
  for (const batch of known) {
    const lines = Math.ceil(batch.length / columns)
    const w = Math.min(batch.length, columns) * 23 + 12
    const h = lines * 22 + 12
    const y = (box.top + box.bottom) / 2
    if (x + w > area.inside.right) break
    p.back += bar(x, y - h / 2, w, h, 'var(--paper)', { rx: 8, stroke: 'var(--ink)', 'stroke-width': 6 })
    batch.forEach((one, i) => {
      p.tokens.push({ ...faceOf(m, one, true), x: x + 17 + (i % columns) * 23, y: y - h / 2 + 17
        + Math.floor(i / columns) * 22 })
    })
    x += w + 10
  }
}

/** The arrow of a request to the stock, or of a stored reply out of it. */
function reachesStore(m, p, one) {
  const face = p.tokens.find((f) => f.id === one.id)
  if (!face) return ''
  const right = face.x + face.w / 2
  const end = area.stock.left
  if (one.replayed) {
    return arrow(end - 4, right + 12, face.y, '--violet', true) + say(end - 116, face.y - 14, 26, t('old_reply'), 'm')
  }
  if (one.than) {
    return arrow(right + 4, end - 20, face.y, '--red', true) + stroke(end - 8, face.y - 58, end - 8, face.y + 58,
      'var(--red)', 14)
  }
  if (!one.sold && one.phase !== 'wrote') return ''
  const colour = one.twin ? '--red' : '--green'
  const tie = one.twin && one.with?.[0] > one.n ? tieOf(m, p, one) : ''
  return tie + arrow(right + 4, end - 4, face.y, colour, one.twin) + (right < 930 ? label((right + end) / 2, face.y,
    one.wrote, colour) : '')
}

/** Joins two orders that read the same version. */
function tieOf(m, p, one) {
  const a = p.tokens.find((f) => f.id === one.id)
  const b = p.tokens.find((f) => f.one.n === one.with[0])
  if (!b) {
    const other = m.list.find((o) => o.n === one.with[0])
    if (!other) return ''
    const rows = m.apps.length
    const y = topOf + (m.apps.indexOf(other.app) + 0.5) * ((board.bottom - topOf) / rows) - 3
    return joined(a, { x: a.x, w: a.w, y }, one.read)
  }
  return joined(a, b, one.read)
}

function joined(a, b, read) {
  const x = Math.min(a.x - a.w / 2, b.x - b.w / 2) - 22
  return path(`M${a.x - a.w / 2 - 4} ${a.y}H${x}V${b.y}H${b.x - b.w / 2 - 4}`, '', {
    stroke: 'var(--red)', 'stroke-width': 7, 'stroke-dasharray': '14 6',
  }) + say(x + 16, (a.y + b.y) / 2 + 12, 32, t('both_read', { n: read }), 'c-red halo')
}

/** The store: what is in it now, and its writes in their order. */
function shelf(m) {
  const { left, right, top, bottom } = area.stock
  const x = (left + right) / 2
  const store = { redis: 'Redis', mysql: 'MySQL' }[m.plan.store] ?? m.plan.store
  let out = say(x, board.top + 20, 22, `${t('stock')} · ${store}`, 'm c-dim') + rect(left, top + 26, right - left,
    bottom - top - 26, 'stock', { rx: 14 })
  if (m.goods) return out + goodsOn(m)
  const v = m.verdict
  const open = m.vote?.on
  if (v.known && !open) out += say(x, top + 116, 88, v.written, 'm')
  if (open) return out
  const shield = m.plan.fenced && m.plan.scene?.startsWith('frozen_fenced') && Math.max(0,
    ...m.list.filter((one) => one.sold).map((one) => one.fence ?? 0))
  if (shield) out += say(left + 14, top + 168, 24, t('has_seen')) + fence(shield, right - 36, top + 160)
  const alarm = v.oversold > 0 ? ['alarm_sold', 'alarm_was'] : v.lost > 0 ? ['alarm_sold', 'alarm_deducted'] : []
  const from = top + (shield ? 204 : 140)
  const lines = Math.floor((bottom - from - (alarm.length ? 78 : 10)) / 50)
  ledgerOf(m).slice(-lines).forEach((l, i) => {
    const y = from + i * 50
    const size = `${l.who}${l.what}`.length > 9 ? 23 : 28
    out += rect(left + 12, y, right - left - 24, 42, `box thin ${l.twin ? 'twin' : 'sold'}`, { rx: 8 }) +
      say(left + 22, y + 30, size, l.who, l.twin ? 'halo' : '') + say(right - 20, y + 30, size, l.what,
        `e ${l.twin ? 'halo' : ''}`)
  })
  alarm.forEach((word, i) => {
    const n = word === 'alarm_sold' ? v.sold : word === 'alarm_was' ? v.initial : v.initial - v.written
    out += say(x, bottom - 46 + i * 32, 26, t(word, { n }), 'm c-red')
  })
  return out
}

/** The writes of the store in their order; the sales of a batch are one. */
function ledgerOf(m) {
  const sold = m.list.filter((one) => one.sold && one.read !== undefined).sort((a, b) => (a.wrote_at
    || a.ended) - (b.wrote_at || b.ended))
  return [...Map.groupBy(sold, (one) => one.batch || one.id).values()].map((batch) => ({
    who: batch.length > 1 ? `${batch.length} ×` : batch[0].name, twin: batch[0].twin,
    what: `${Math.max(...batch.map((one) => one.read))} → ${Math.min(...batch.map((one) => one.wrote))}`,
  }))
}

function goodsOn(m) {
  const tall = (board.bottom - topOf) / 4
  const { left, right } = area.stock
  return [0, 1, 2, 3].map((good) => {
    const y = topOf + (good + 0.5) * tall - 3
    const sold = m.list.filter((one) => one.sold && (one.good ?? 0) === good)
    const now = m.plan.stock - sold.length
    return key(good, left + 40, y, 20) + say(right - 24, y + 20, 52, now, 'e') +
      (good < 3 ? stroke(left + 6, y + tall / 2, right - 6, y + tall / 2, 'var(--soft)', 3) : '')
  }).join('')
}

/** The chart that suits the run. */
function below(m, p) {
  if (m.plan.strategy.startsWith('zk-') && m.list.length > 8) return wakeUps(m)
  if (!m.shared && !m.process && m.plan.strategy !== 'none' && m.list.length > 8) {
    const writes = ledgerSizes(m)
    return tallied(t('sold_by_write'), t('writes_sum', { n: m.verdict.sold ?? 0 }), writes, writes.length)
  }
  const { markup, overlap } = timeline(m)
  p.overlap = overlap
  return markup
}

const ledgerSizes = (m) => [...Map.groupBy(m.list.filter((one) => one.sold).sort((a, b) => a.ended - b.ended),
  (one) => one.batch || one.id).values()].map((b) => b.length)

/** How many waiters each release has woken. */
function wakeUps(m) {
  const releases = m.list.flatMap((one) => (one.holds ?? []).filter((h) => h.to).map((h) => h.to)).sort((a, b) => a - b)
  const list = releases.map(() => 0)
  for (const at of m.list.flatMap((one) => one.woken ?? [])) {
    const i = releases.findLastIndex((to) => to <= at)
    if (i >= 0) list[i]++
  }
  return tallied(t('woken_by_release'), t('wakes_sum', { n: releases.length }), list, list.reduce((a, b) => a + b, 0))
}
