// The picture of a run: instances, who waits, the lock, the critical section and the stock, always at the same places.
import { t } from './words.js'
import {
  arrow, badge, bar, barrier, circle, fence, good, label, outline, padlock, path, rect, remaining, say, stroke,
  tokenWidth,
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
  const { plan, at: began = 0 } = store.get('run') ?? {}
  const caption = store.get('caption')
  const list = [...store.under('t')].map(([id, one]) => ({
    ...one, id, name: one.who || String(one.n),
    sold: one.phase === 'done' && one.outcome === 'accepted' && !one.replayed,
  })).sort((a, b) => a.n - b.n)
  const numberOf = (app) => about.apps.indexOf(app) + 1
  const m = {
    plan, began, list, now, vote: store.get('voting'),
    ended: caption?.phase === 'done' && caption.key.startsWith('stop_'), stop: store.get('stop'),
    verdict: store.get('verdict') ?? {}, leases: store.get('leases') ?? [],
    exclusive: Boolean(plan?.exclusive), shared: plan?.exclusive && plan.scope === 'cluster',
    free: plan?.scope === 'cluster' && !plan.exclusive, process: plan?.scope === 'process',
    zookeeper: Boolean(plan?.strategy.startsWith('zk-')), goods: plan?.goods > 1, keyed: plan?.scene === 'same_key',
    fences: plan?.fenced && plan.scene?.startsWith('frozen'),
    masters: plan?.strategy === 'redlock' && store.get('masters')?.answers,
    queue: plan?.strategy === 'zk-sequential' ? store.get('queue')?.answers ?? [] : [],
    running: list.some((one) => one.phase !== 'done'),
    numberOf, appOf: (one) => numberOf(one.app) || 1,
    nameOf: (req) => list.find((one) => one.id === req)?.name ?? '',
    bands: (server) => store.get(`faults:${server}`) ?? [],
    stateOf: store.stateOf,
  }
  m.from = list.length ? Math.min(...list.map((one) => one.fired || now)) : now
  m.to = m.running ? Math.max(now, m.from) : Math.max(m.from, ...list.map((one) => one.ended || 0))
  m.faultOf = (one) => m.bands(one.app).find((b) => b.from > one.fired && (!one.ended || b.from <= one.ended))
  const noMajority = m.masters ? minorityAt(store, m.masters.length) : Infinity
  m.lostBy = (one) => m.leases.find((l) => l.req === one.id && l.over && l.expired) ??
    (one.holds?.some((h) => h.from < noMajority && noMajority < (h.to || now)) ? { over: noMajority } : undefined)
  const used = (app, i) => i < (plan?.instances || 3) || list.some((one) => one.app === app)
  m.apps = about.apps.filter(used).slice(0, 4)
  m.h = heightOf(Math.max(list.length, plan?.requests ?? 0), m.apps.length)
  return m
}

/** When so many masters of Redlock were down that the others are no majority: nobody had the lock any more. */
function minorityAt(store, masters) {
  const bands = [...store.under('faults')].filter(([name]) => name.startsWith('redis-')).flatMap(([, list]) => list)
  const down = (at) => bands.filter((b) => b.from <= at && !(b.to <= at)).length
  return bands.map((b) => b.from).sort((a, b) => a - b).find((at) => down(at) >= masters / 2) ?? Infinity
}

/** The height of a request: as large as a row has room for. */
function heightOf(requests, rows) {
  if (requests > 40) return 20
  if (requests > 8) return 40
  if (requests > 3) return 54
  return rows > 2 ? 68 : 100
}

/** Returns the picture: what is behind the requests, the requests with their places, and what is before them. */
export function pictureOf(m) {
  const p = { back: '', front: '', tokens: [] }
  const voted = m.vote && hasAnswers(m)
  if (voted) p.back += answers(m.vote, rightAnswer(m))
  if (!m.plan) return p
  const crowd = m.shared && !m.goods && Math.max(m.list.length, m.plan.requests) > 8
  const lanes = m.goods ? [0, 1, 2, 3] : crowd ? [0] : m.apps
  const tall = (board.bottom - topOf) / lanes.length
  p.back += heads(m, crowd || m.goods) + gate(m, tall)
  lanes.forEach((lane, i) => {
    const own = m.list.filter((one) => m.goods ? (one.good ?? 0) === lane : crowd || (one.app || m.apps[0]) === lane)
    const box = { top: topOf + i * tall, bottom: topOf + (i + 1) * tall - 6 }
    if (m.goods || m.stateOf(lane) === 'up') p.back += floor(box)
    fill(m, p, own, box, crowd)
  })
  p.back += shelf(m)
  if (!voted) p.back += below(m)
  return p
}

/** Whether the answers of a vote take the place of the chart: it is open, or nothing has run since, or its scene is
 * over. */
function hasAnswers({ vote, began, ended, plan }) {
  if (vote.on) return true
  return vote.votes.some((n) => n > 0) && (vote.at > began || ended && vote.about === plan.scene)
}

/** The place of the right answer. All questions of scenes are asked so that it is yes if the scene ends wrong. */
function rightAnswer({ vote, began, verdict }) {
  if (vote.on || vote.at > began) return -1
  return verdict.code === 'race' ? 0 : 1
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

const floor = ({ top, bottom }) => rect(area.inside.left, top + 2, area.inside.right - area.inside.left - 2,
  bottom - top - 4, 'inside', { rx: 8 })

/** The lock: one gate for all instances, a gate for each, or none. It says who holds it. */
function gate(m, tall) {
  const { left, right } = area.lock
  const bottom = board.bottom - 6
  if (m.goods) return [0, 1, 2, 3].map((sku) => smallGate(m, topOf + (sku + 0.5) * tall - 3, sku)).join('')
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
      say(gateX, topOf + 122 + size * 0.36, size, one.name, 'm holder')
    if (ended) {
      const struck = `M${gateX - 50} ${topOf + 172}L${gateX + 50} ${topOf + 72}`
      out += path(struck, '', { stroke: 'var(--red)', 'stroke-width': 9 })
    }
  } else out += say(gateX, topOf + 130, 30, t('open'), 'm holder')
  if (one && lease) {
    const what = m.zookeeper ? 'session' : 'lease_word'
    const times = lease.times ? ` ↻${lease.times}` : ''
    out += remaining(gateX, topOf + 184, ended ? 0 : leftOf(m, lease), lease.full / 1000, t(what) + times)
  }
  return out + say(gateX, board.bottom - 14, 20, serverOf(m), 'm c-amber')
}

function serverOf(m) {
  if (m.zookeeper) return 'ZooKeeper'
  return m.plan.strategy.startsWith('mysql') ? 'MySQL' : 'Redis'
}

/** Who holds the lock, as its server says. Until it has said so, it is whoever is inside. */
function holderOf(m) {
  const lease = m.leases.at(-1)
  const named = lease && m.list.find((one) => one.id === lease.req)
  const next = m.list.find((one) => within.includes(one.phase) && one !== named && !m.lostBy(one))
  if (named && !lease.over && !(next && named.phase === 'done')) return { one: named, lease }
  if (next) return { one: next }
  return named && lease.over && lease.expired ? { one: named, lease, ended: true } : {}
}

/** The seconds that a lease still has. A session of ZooKeeper runs out from when its instance died or froze. */
function leftOf(m, lease) {
  if (lease.left) return Math.max(0, lease.left / 1000 - (m.now - lease.at) / 1e6)
  const one = m.list.find((one) => one.id === lease.req)
  const fault = one && m.bands(one.app).find((b) => b.from > lease.from)
  return Math.max(0, lease.full / 1000 - (fault ? (m.now - fault.from) / 1e6 : 0))
}

/** The lock of an instance, or of a SKU. */
function smallGate(m, y, sku, app) {
  const own = (one) => sku === undefined ? one.app === app : (one.good ?? 0) === sku
  const inside = m.list.find((one) => within.includes(one.phase) && own(one))
  const high = sku === undefined ? 86 : 62
  let out = rect(area.lock.left, y - high / 2, 130, high, `gate ${inside ? '' : 'free'}`, { rx: 12 }) +
    padlock(area.lock.left + 32, y - 4, 16, Boolean(inside))
  if (sku !== undefined) return out + good(sku, area.lock.left + 86, y, 20)
  if (!inside) return out
  return out + path(outline(m.numberOf(app), area.lock.left + 58, y - 30, 60, 60), 'box in') +
    say(area.lock.left + 88, y + 12, inside.name.length > 2 ? 24 : 34, inside.name, 'm')
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
      circle(x, y, 20, { class: `master ${down ? 'down' : name ? 'held' : ''}` })
    if (down) out += path(`M${x - 14} ${y - 14}l28 28m0 -28l-28 28`, '', { stroke: 'var(--ink)', 'stroke-width': 7 })
    else out += say(x, y + 10, 28, name, 'm')
  })
  const most = Math.max(0, ...counts.values())
  const has = most > m.masters.length / 2
  return out + say(gateX, board.bottom - 20, 30, t('of_masters', { n: most, of: m.masters.length }), has ? 'm'
    : 'm c-red')
}

/** Puts the requests of a lane into their places: who waits, or never got in, before the gate; all others behind it. */
function fill(m, p, own, box, crowd) {
  const dots = m.h <= 20
  const few = m.list.length <= 3
  const waiting = own.filter((one) => one.phase === 'sent' || one.phase === 'waits')
  const inside = own.filter((one) => within.includes(one.phase))
  const done = own.filter((one) => one.phase === 'done').sort((a, b) => b.ended - a.ended)
  const out = done.filter((one) => one.replayed || !one.sold && (dots || !one.holds))
  const past = done.filter((one) => !out.includes(one))
  if (m.queue.length) waiting.sort((a, b) => m.queue.indexOf(a.id) - m.queue.indexOf(b.id))
  const behind = [...inside, ...(crowd ? past.slice(0, 1) : past)]
  if (few) behind.sort((a, b) => a.n - b.n)

  const held = few ? m.leases.length > 0 && !m.leases.at(-1).over : inside.length > 0
  const closed = waiting.length > 0 && !crowd && (m.process || m.shared) && (held || inside.length > 0)
  const before = crowd ? waiting : [...out, ...waiting]
  const room = { left: area.waiting.left + 4, right: area.waiting.right - (closed ? 32 : 6), ...box }
  const rest = flow(before.map((one) => faceOf(m, one, false)), room, -1, p)
  if (rest > 0) p.front += say(area.waiting.left + 10, box.bottom - 8, 22, t('hidden', { n: rest }), 'halo')
  if (closed) {
    p.back += barrier(area.lock.left - 26, (box.top + box.bottom) / 2, Math.min(104, box.bottom - box.top - 12))
  }
  if (m.queue.length && crowd) p.back += queueLine(p.tokens)
  if (m.plan.strategy === 'merged' && dots) return batches(m, p, behind, box)
  const latest = behind.slice(0, 60) // more have no room
  const hidden = flow(latest.map((one) => faceOf(m, one, true, crowd ? 56 : m.h)),
    { left: area.inside.left + 8, right: area.inside.right - 30, ...box }, few ? 0 : 1, p)
  const more = hidden + behind.length - latest.length
  if (more > 0) p.front += say(area.inside.right - 8, box.bottom - 8, 22, t('hidden', { n: more }), 'e halo')
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
  const below = h > 40 ? 8 : 4
  const fits = (bottom) => Math.max(1, Math.floor((bottom - room.top + below) / (h + below)))
  const all = lines.length <= fits(room.bottom)
  const strip = room.bottom - room.top > h + 28 ? 28 : 0 // in it stands how many are hidden; a low lane has no room
  const bottom = all ? room.bottom : room.bottom - strip
  const shown = lines.slice(0, fits(bottom))
  const middle = (room.top + bottom) / 2
  shown.forEach((line, i) => {
    const y = middle + (i - (shown.length - 1) / 2) * (h + below)
    const whole = line.reduce((sum, f) => sum + f.w + gap, -gap)
    let x = way < 0 ? room.right : way > 0 ? room.left : (room.left + room.right - whole) / 2
    for (const f of line) {
      p.tokens.push({ ...f, x: way < 0 ? x - f.w / 2 : x + f.w / 2, y })
      x += (way < 0 ? -1 : 1) * (f.w + gap)
    }
  })
  return faces.length - shown.reduce((sum, line) => sum + line.length, 0)
}

/** The state of a request, which its border shows, and its badge. */
function lookOf(m, one, late) {
  const fault = one.phase !== 'done' && one.app && m.stateOf(one.app)
  if (one.outcome === 'no_reply' || fault === 'killed') return ['dead', 'dead']
  if (one.replayed) return ['again', 'again']
  if (one.sold && one.twin) return ['twin', late ? 'late' : 'twin']
  if (one.sold) return ['sold', 'yes']
  if (one.phase === 'done') return ['no', late ? 'late' : 'no']
  if (fault === 'frozen') return ['frozen', 'pause']
  return [within.includes(one.phase) ? 'in' : 'waits', '']
}

/** What a request has read, and written. */
function changeOf(one) {
  if (one.read === undefined || one.replayed) return ''
  const wrote = one.wrote !== undefined && (one.sold || one.phase === 'wrote')
  return wrote ? `${one.read}→${one.wrote}` : String(one.read)
}

function tagOf(m, one) {
  if (m.goods) return { good: one.good ?? 0 }
  return m.keyed ? { key: (one.same || one.n) === 1 ? 0 : 1 } : undefined
}

/** How a request looks. */
function faceOf(m, one, inside, h = m.h) {
  const lost = m.lostBy(one)
  const late = Boolean(lost && (one.wrote_at > lost.over || one.than))
  const [state, sign] = lookOf(m, one, late)
  const face = {
    id: one.id, one, h: one.name.length > 6 ? Math.min(h, 40) : h, name: one.name, q: inside ? changeOf(one) : '',
    app: m.appOf(one), state, badge: sign, tag: tagOf(m, one), low: one.twin && one.n === 2,
    plate: m.fences ? one.fence : 0, star: isWoken(m, one),
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
  let hidden = 0
  const lines = 3
  const y = (box.top + box.bottom) / 2
  for (const batch of writesOf(inside.toSorted((a, b) => a.ended - b.ended))) {
    const w = Math.ceil(batch.length / lines) * 22 + 12
    const h = Math.min(batch.length, lines) * 22 + 12
    if (x + w > area.inside.right) {
      hidden += batch.length
      continue
    }
    p.back += bar(x, y - h / 2, w, h, 'var(--paper)', { rx: 8, stroke: 'var(--ink)', 'stroke-width': 6 })
    batch.forEach((one, i) => p.tokens.push({
      ...faceOf(m, one, true), x: x + 17 + Math.floor(i / lines) * 22, y: y - h / 2 + 17 + (i % lines) * 22,
    }))
    x += w + 10
  }
  if (hidden > 0) p.front += say(area.inside.right - 8, box.bottom - 8, 22, t('hidden', { n: hidden }), 'e halo')
}

/** The arrow of a request to the stock, or of a stored reply out of it. */
function reachesStore(m, p, one) {
  const face = p.tokens.find((f) => f.id === one.id)
  if (!face) return ''
  const right = face.x + face.w / 2
  const end = area.stock.left
  if (one.replayed) {
    return arrow(end - 4, right + 12, face.y, '--violet', true) + say(end - 16, face.y - 14, 26, t('old_reply'), 'e')
  }
  if (one.than) {
    return arrow(right + 4, end - 20, face.y, '--red', true) + stroke(end - 8, face.y - 58, end - 8, face.y + 58,
      'var(--red)', 14)
  }
  if (!one.sold && one.phase !== 'wrote') return ''
  const colour = one.twin ? '--red' : '--green'
  const tie = one.twin && one.with?.[0] > one.n ? tieOf(m, p, one) : ''
  const written = right < 930 ? label((right + end) / 2, face.y, one.wrote, colour) : ''
  return tie + arrow(right + 4, end - 4, face.y, colour, one.twin) + written
}

/** Joins two orders that read the same version. */
function tieOf(m, p, one) {
  const [a, b] = [one.n, one.with[0]].map((n) => p.tokens.find((f) => f.one.n === n))
  if (b) return joined(a, b, one.read)
  const other = m.list.find((o) => o.n === one.with[0]) // it comes into its row after this one
  if (!other) return ''
  const tall = (board.bottom - topOf) / m.apps.length
  return joined(a, { ...a, y: topOf + (m.apps.indexOf(other.app) + 0.5) * tall - 3 }, one.read)
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
  const checks = m.fences && !m.plan.unfenced
  const shield = checks && Math.max(0, ...m.list.filter((one) => one.sold).map((one) => one.fence ?? 0))
  if (shield) out += say(left + 14, top + 168, 24, t('has_seen')) + fence(shield, right - 36, top + 160)
  const alarm = alarmOf(v)
  const from = top + (shield ? 204 : 140)
  const lines = Math.floor((bottom - from - (alarm.length ? 78 : 10)) / 50)
  ledgerOf(m).slice(-lines).forEach((l, i) => {
    const y = from + i * 50
    const size = `${l.who}${l.what}`.length > 9 ? 23 : 28
    out += rect(left + 12, y, right - left - 24, 42, `box thin ${l.twin ? 'twin' : 'sold'}`, { rx: 8 }) +
      say(left + 22, y + 30, size, l.who, l.twin ? 'halo' : '') + say(right - 20, y + 30, size, l.what,
        `e ${l.twin ? 'halo' : ''}`)
  })
  alarm.forEach((words, i) => { out += say(x, bottom - 46 + i * 32, 26, words, 'm c-red') })
  return out
}

/** What is wrong, in two lines. */
function alarmOf(v) {
  if (v.oversold > 0) return [t('alarm_sold', { n: v.sold }), t('alarm_was', { n: v.initial })]
  if (v.lost > 0) return [t('alarm_sold', { n: v.sold }), t('alarm_deducted', { n: v.initial - v.written })]
  return []
}

/** The writes of the store in their order; the sales of a batch are one. */
function ledgerOf(m) {
  return writesOf(soldOf(m)).map((batch) => ({
    who: batch.length > 1 ? `${batch.length} ×` : batch[0].name, twin: batch[0].twin,
    what: `${Math.max(...batch.map((one) => one.read))} → ${Math.min(...batch.map((one) => one.wrote))}`,
  }))
}

function goodsOn(m) {
  const tall = (board.bottom - topOf) / 4
  const { left, right } = area.stock
  return [0, 1, 2, 3].map((sku) => {
    const y = topOf + (sku + 0.5) * tall - 3
    const sold = m.list.filter((one) => one.sold && (one.good ?? 0) === sku)
    const now = m.plan.stock - sold.length
    return good(sku, left + 48, y, 22) + say(right - 24, y + 20, 52, now, 'e') +
      (sku < 3 ? stroke(left + 6, y + tall / 2, right - 6, y + tall / 2, 'var(--soft)', 3) : '')
  }).join('')
}

/** Sales in the order of their writes, which replies do not keep: where the store decides, versions tell it. */
function soldOf(m) {
  const at = (one) => m.free && one.version || one.wrote_at || one.ended
  return m.list.filter((one) => one.sold && one.read !== undefined).sort((a, b) => at(a) - at(b))
}

/** Sales in their order, those of a batch together. */
const writesOf = (sold) => [...Map.groupBy(sold, (one) => one.batch || one.id).values()]

/** The chart that suits the run. */
function below(m) {
  const many = m.list.length > 8
  if (many && m.zookeeper) return wakeUps(m)
  if (many && m.free) {
    const sold = soldOf(m)
    const writes = writesOf(sold).map((batch) => batch.length)
    return tallied(t('sold_by_write'), t('writes_sum', { n: sold.length }), writes, writes.length)
  }
  return timeline(m)
}

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
