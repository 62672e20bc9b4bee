// The wall. It shows the frames of the class, and sends the teacher's commands.
import { choose, has, language, load, other, outcome, t, wide } from './words.js'
import { Player } from './player.js'
import { drawTies } from './ties.js'
import { Store, drawHolds, drawLine, span } from './view.js'

const at = (id) => document.getElementById(id)
const store = new Store()
let about = null // the choices
let chosen = null // the chosen instance
let opened = null // the request whose menu is open
let player = null // of a kept run; null: live

// --- commands

async function post(path, body) {
  const res = await fetch(path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
  })
  return { ok: res.ok, body: await res.json().catch(() => ({})) }
}

async function act(body) {
  if (player) return
  const r = await post('api/do', body)
  alarm(r.ok ? '' : t('refused', { why: reason(r.body) }))
}

/** Shows the reason for a refusal, which the class sends in both languages. */
const reason = ({ said }) => said?.[language()] ?? t('reason_failed')

let quiet = 0
function alarm(text) {
  clearTimeout(quiet)
  at('alert').textContent = text
  at('alert').hidden = text === ''
  if (text) quiet = setTimeout(() => alarm(''), 6000)
}

const chosenPlan = (how) => ({
  strategy: at('strategy').value, store: at('store').value, stock: Number(at('stock').value),
  think_ms: Number(at('think').value), instances: 3, ...how,
})
const fire = () => act({ do: 'fire', plan: chosenPlan({ requests: Number(at('requests').value) }) })
const fireSteadily = () => act({
  do: 'rate', plan: chosenPlan({ rate: Number(at('rate').value), seconds: Number(at('lasts').value) }),
})
const rated = () => Boolean(store.get('rate')?.on)
const paused = () => Boolean(store.get('pause')?.on)
const voting = () => Boolean(store.get('voting')?.on)
const stateOf = (server) => store.get(`server:${server}`)
const freeze = (app) => act({ do: 'fault', server: app, act: stateOf(app) === 'frozen' ? 'wake' : 'freeze' })
const kill = (app) => act({ do: 'fault', server: app, act: stateOf(app) === 'killed' ? 'start' : 'kill' })

const keys = {
  f: fire,
  r: () => rated() ? act({ do: 'stop' }) : fireSteadily(),
  b: () => act({ do: 'more' }),
  p: () => act({ do: 'pause', on: !paused() }),
  n: () => act({ do: 'step' }),
  v: () => about.join && (voting() ? act({ do: 'vote', on: false }) : asking()),
  arrowright: () => lead(1),
  pagedown: () => lead(1),
  arrowleft: () => lead(-1),
  pageup: () => lead(-1),
  '.': show,
  w: () => chosen && freeze(chosen),
  k: () => chosen && kill(chosen),
  o: () => toggle('scenes'),
  q: () => about.join && toggle('qr'),
  i: () => (player ? about.back : true) && turn(!player),
  '?': () => toggle('keys'),
  t: theme,
  e: tongue,
}

addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || !about) return
  if (e.target.matches?.('select, input') && e.key !== 'Escape') return
  const key = e.key.toLowerCase()
  if (player) {
    if (key === ' ' && !e.target.matches?.('button')) player.play(!player.playing)
    else if (key === 'arrowleft') player.step(-1)
    else if (key === 'arrowright') player.step(1)
    else if (key === 'home') player.seek(player.from)
    else if (key === 'end') player.seek(player.to)
    else if ('eti.'.includes(key)) keys[key]()
    else if (key === 'escape') keys.i()
    else return
    e.preventDefault()
    return
  }
  if (document.querySelector('dialog[open]') && key.startsWith('arrow')) return
  const scene = about.scenes.find((s) => s.key === key)
  const app = about.apps[Number(key) - 1]
  if (keys[key]) keys[key]()
  else if (app) select(app)
  else if (scene) play(scene.name)
  else return
  e.preventDefault()
})

let led = -1 // the index of the scene that was played last, for "next scene"
function lead(by) {
  const current = about.scenes.findIndex((s) => s.name === store.get('run')?.plan?.scene)
  const next = (current >= 0 ? current : led) + by
  if (next >= 0 && next < about.scenes.length) play(about.scenes[next].name)
}

/** Hides all that the class does not need to see, or shows it again. */
function show() {
  const on = document.body.classList.toggle('show')
  at('b-show').setAttribute('aria-pressed', String(on))
  const to = new URL(location)
  if (on) to.searchParams.set('show', '1')
  else to.searchParams.delete('show')
  history.replaceState(null, '', to)
  renderNow()
}

/** Lets the teacher choose what the class votes on. The prepared questions begin with the next scene. */
function asking() {
  const last = Math.max(led, about.scenes.findIndex((s) => s.name === store.get('run')?.plan?.scene))
  const list = about.scenes.map((_, i) => about.scenes[(i + last + 1) % about.scenes.length])
  at('ask').querySelector('ol').replaceChildren(...list.map((s) => {
    const b = element('button', { type: 'button', textContent: `${t(`scene_${s.name}`)} – ${t(`ask_${s.name}`)}` })
    b.addEventListener('click', () => ask({ about: s.name }))
    return element('li', {}, b)
  }))
  toggle('ask')
  at('ask').querySelector('li button')?.focus()
}

function ask(vote) {
  at('ask').close()
  act({ do: 'vote', on: true, vote })
}

function play(name) {
  led = about.scenes.findIndex((s) => s.name === name)
  for (const d of document.querySelectorAll('dialog[open]')) d.close()
  act({ do: 'scene', scene: name })
}

/** Shows the current run in the player, or goes back to the live view. */
function turn(back) {
  const to = new URLSearchParams(location.search)
  to.set('lang', language())
  to.set('theme', document.documentElement.dataset.theme)
  if (back) to.set('replay', '1')
  else to.delete('replay')
  location.search = to
}

function toggle(id) {
  const d = at(id)
  if (d.open) return d.close()
  for (const other of document.querySelectorAll('dialog[open]')) other.close()
  d.showModal()
}

function select(app) {
  chosen = chosen === app ? null : app
  for (const e of document.querySelectorAll('.app')) {
    e.classList.toggle('chosen', e.dataset.app === chosen)
    e.querySelector('.name').setAttribute('aria-pressed', String(e.dataset.app === chosen))
  }
}

function theme() {
  const dark = document.documentElement.dataset.theme === 'dark'
  document.documentElement.dataset.theme = dark ? 'light' : 'dark'
  renderNow()
}

function tongue() {
  other()
  build()
  renderNow()
}

// --- the parts of the page that depend on the choices

function element(tag, props = {}, ...children) {
  const e = Object.assign(document.createElement(tag), props)
  e.append(...children)
  return e
}

const buttons = (list) => list.map(([name, run]) => {
  const b = element('button', { type: 'button', textContent: t(`act_${name}`) })
  b.dataset.act = name
  b.addEventListener('click', run)
  return b
})

const lanes = ['waits', 'read', 'thinks', 'writes', 'done']

function build() {
  stood = ''
  tokens.clear()
  measures.clear()
  at('ties').drawn = null
  at('apps').replaceChildren(...about.apps.map((app, i) => {
    const name = element('button', { type: 'button', className: 'name' }, element('kbd', { textContent: i + 1 }), ` ${app}`)
    name.addEventListener('click', () => select(app))
    name.setAttribute('aria-pressed', String(app === chosen))
    const head = element('header', {}, name, element('span', { className: 'state' }), ...buttons([
      ['freeze', () => freeze(app)], ['wake', () => freeze(app)], ['kill', () => kill(app)], ['start', () => kill(app)],
    ]))
    const lease = element('div', { className: 'lease' }, element('i'), element('span'))
    const rows = element('div', { className: 'lanes' }, ...lanes.map((lane) => {
      const e = element('div', { className: 'lane' }, element('span', { textContent: t(lane) }), element('b'))
      if (lane !== 'waits' && lane !== 'done') e.classList.add('inside')
      e.dataset.lane = lane
      return e
    }), element('div', { className: 'layer' }))
    const section = element('section', { className: `app${app === chosen ? ' chosen' : ''}` }, head, lease, rows)
    section.dataset.app = app
    section.setAttribute('aria-label', app)
    sizes.observe(rows)
    return section
  }))
  const fault = (server, name) => act({ do: 'fault', server, act: name })
  for (const e of at('servers').querySelectorAll('.server')) e.remove()
  at('servers').append(...about.servers.map((server) => {
    const e = element('div', { className: 'server' }, element('b', { textContent: server }),
      element('span', { className: 'state' }),
      ...buttons(['kill', 'start', 'delay', 'cut', 'mend'].map((name) => [name, () => fault(server, name)])))
    e.dataset.server = server
    return e
  }))
  at('strategy').replaceChildren(...about.strategies.map((s) => element('option', {
    value: s.name, textContent: s.name, disabled: Boolean(s.reason), title: s.reason ?? '', selected: s.name === at('strategy').value,
  })))
  stores()
  at('scenes').querySelector('ol').replaceChildren(...about.scenes.map((s) => {
    const b = element('button', { type: 'button' }, element('kbd', { textContent: s.key.toUpperCase() }), ` ${t(`scene_${s.name}`)}`)
    b.dataset.scene = s.name
    b.addEventListener('click', () => play(s.name))
    return element('li', {}, b)
  }))
  const named = [['F', 'f'], ['R', 'r'], ['B', 'b'], ['P', 'p'], ['N', 'n'], ['1 2 3', '123'], ['W', 'w'], ['K', 'k'], ['V', 'v'], ['→', 'next'], ['←', 'last'], ['.', 'show'], ['O', 'o'],
    ['I', 'i'], ['Q', 'q'], ['E', 'e'], ['T', 't'], ['?', '?']]
  at('keys').querySelector('dl').replaceChildren(...named.flatMap(([key, word]) => [
    element('dt', {}, element('kbd', { textContent: key })), element('dd', { textContent: t(`key_${word}`) }),
  ]))
  at('menu-points').replaceChildren(...['after_lock', 'after_read', 'before_write', 'after_write', 'after_unlock'].map((point) => {
    const b = element('button', { type: 'button', textContent: t(point) })
    b.addEventListener('click', () => {
      at('menu').close()
      act({ do: 'hold', req: opened, point })
    })
    return b
  }))
  at('b-qr').hidden = at('b-vote').hidden = !about.join
  if (about.join) {
    at('qr-url').textContent = about.join
    at('qr-picture').src = 'api/join.svg'
    at('qr-picture').alt = about.join
  }
}

function stores() {
  const s = about.strategies.find((s) => s.name === at('strategy').value)
  const kept = at('store').value
  at('store').replaceChildren(...(s?.stores ?? []).map((name) => element('option', { value: name, textContent: name, selected: name === kept })))
}

// --- tokens

const tokens = new Map() // buttons, by request
const inside = ['in', 'read', 'thinks', 'writes', 'wrote']
const mostShown = 20 // tokens of one instance: 60 for three
const laneOf = {
  waits: 'waits', in: 'read', read: 'read', thinks: 'thinks', writes: 'writes', wrote: 'writes', done: 'done',
}
const measures = new Map() // of the columns, by instance; reading them between two changes costs a layout each time
const sizes = new ResizeObserver(() => {
  measures.clear()
  at('ties').drawn = null
  render()
})

function measure(app) {
  let m = measures.get(app)
  if (!m) {
    const box = document.querySelector(`.app[data-app="${app}"] .lanes`)
    m = { layer: box?.querySelector('.layer'), width: box?.clientWidth, rows: {} }
    for (const row of box?.querySelectorAll('.lane') ?? []) {
      m.rows[row.dataset.lane] = { row, top: row.offsetTop, height: row.clientHeight }
    }
    measures.set(app, m)
  }
  return m
}

/** The button of a token, in the layer of its instance. One that is free is used again: to make and to remove hundreds
 * of buttons a second costs a page more than all else that it does. */
function face(layer, id, token) {
  let b = tokens.get(id)
  const fresh = !b
  if (fresh) {
    b = [...layer.children].find((b) => !b.dataset.req)
    if (!b) {
      b = element('button', { type: 'button' }, element('b'), element('span'), element('em'))
      b.addEventListener('click', (e) => menu(e.currentTarget.dataset.req))
      layer.append(b)
    }
    b.dataset.req = id
    tokens.set(id, b)
  }
  if (b.shown === token) return b
  b.shown = token // a frame with changes brings a new object
  const sold = token.phase === 'done' && token.outcome === 'accepted'
  b.className = ['tok', fresh && 'fresh', inside.includes(token.phase) && 'in',
    token.point && 'stands', sold && 'sold', token.twin && 'twin', token.phase === 'done' && !sold && 'no',
    token.replayed && 'replayed', token.than && 'late']
    .filter(Boolean).join(' ')
  b.dataset.phase = token.phase
  const wrote = token.wrote !== undefined && (sold || token.phase === 'wrote')
  put(b.firstChild, callName(token))
  put(b.lastChild, mark(token))
  put(b.children[1], token.than ? '' : String(token.replayed ? '↻' : wrote ? `${token.read}→${token.wrote}`
    : token.phase === 'done' ? (sold ? '✓' : '✗')
    : token.read !== undefined && token.phase !== 'waits' ? token.read : ''))
  b.title = describe(id, token)
  b.setAttribute('aria-label', b.title)
  return b
}

/** Removes the button of a token that is no longer shown. */
function free(b) {
  if (b === document.activeElement) b.blur() // so that Enter does not act on another token
  tokens.delete(b.dataset.req)
  delete b.dataset.req
  b.className = 'spare'
  b.shown = b.where = null
}

/** What a class calls a request: its customer, or its number. */
const callName = (token) => token.who || String(token.n)

/** What the fence has to do with a request: its token while it is in the critical section, and the refusal. */
function mark(token) {
  if (token.than) return t('token_refused', { n: token.fence, than: token.than })
  return token.fence && inside.includes(token.phase) ? t('token_fence', { n: token.fence }) : ''
}

function sizeOf(token, lane) {
  const least = (lane === 'done' || lane === 'writes') ? 96 : 66
  const quantity = token.than ? 0 : wide(`${token.read ?? ''}${lane === 'done' || lane === 'writes' ? `→${token.wrote ?? ''}` : ''}`, 11)
  return Math.ceil(Math.max(least, 32 + wide(callName(token), 14) + quantity + wide(mark(token), 8.8) + (token.point ? 20 : 0)))
}

function describe(id, token) {
  const parts = [t('token', { n: token.n, phase: token.phase === 'done' ? outcome(token.outcome) : t(laneOf[token.phase] ?? 'sent') })]
  if (token.who) parts.push(token.who)
  if (token.read !== undefined) parts.push(t('token_read', { n: token.read }))
  if (token.wrote !== undefined) parts.push(t('token_wrote', { n: token.wrote }))
  if (token.fence) parts.push(t('token_fence', { n: token.fence }))
  if (token.point) parts.push(t('token_at', { point: t(token.point) }))
  if (token.twin) parts.push(t('token_twin'))
  if (token.same) parts.push(t('token_same', { n: token.same }))
  if (token.replayed) parts.push(t('token_replayed'))
  return parts.join(', ')
}

function place(app, list) {
  const { layer, width, rows: measured } = measure(app)
  if (!layer) return
  const left = 114
  const tall = document.body.classList.contains('show') // a lane of one row has room for it
    ? Math.max(22, Math.min(36, measured.read.height - 3, measured.done.height / 2 - 4)) : 36
  const inLane = Map.groupBy(list, ([, token]) => laneOf[token.phase])
  const shown = new Map()
  let room = mostShown
  for (const lane of lanes) {
    const { row, top, height } = measured[lane]
    const own = inLane.get(lane) ?? []
    own.sort(([, a], [, b]) => (lane === 'done' ? b.ended - a.ended : Boolean(b.point) - Boolean(a.point) || a.n - b.n))
    const rows = Math.max(1, Math.floor((height - 2) / (tall + 3)))
    let x = left
    let line = 0
    let fit = 0
    for (const [id, token] of own) { // each beside the one before it, or in the next row
      const size = Math.min(sizeOf(token, lane), width - left - 6)
      if (x > left && x + size > width - 4) {
        x = left
        line++
      }
      if (line >= rows || room === 0) break
      shown.set(id, { token, size, x, y: top + 2 + line * (tall + 3) })
      x += size + 5
      fit++
      room--
    }
    put(row.lastChild, own.length > fit ? t('hidden', { n: own.length - fit }) : '')
  }
  for (const b of layer.children) if (b.dataset.req && !shown.has(b.dataset.req)) free(b)
  for (const [id, { token, size, x, y }] of shown) {
    if (tokens.has(id) && tokens.get(id).parentNode !== layer) free(tokens.get(id)) // nginx chose another instance
    const b = face(layer, id, token)
    const where = `${x} ${y} ${size}`
    if (b.where === where) continue
    b.where = where
    b.style.width = `${size}px`
    b.style.height = `${tall}px`
    b.style.transform = `translate(${x}px, ${y}px)`
  }
  const fresh = layer.querySelectorAll('.fresh')
  if (fresh.length) requestAnimationFrame(() => fresh.forEach((b) => b.classList.remove('fresh')))
}

function menu(id) {
  if (player) return
  const token = store.get(`t:${id}`)
  if (!token) return
  opened = id
  at('menu-title').textContent = t('token', { n: token.n, phase: token.phase === 'done' ? outcome(token.outcome) : t(laneOf[token.phase] ?? 'sent') })
  at('menu-what').textContent = describe(id, token)
  at('menu-go').hidden = !token.point
  at('menu-again').hidden = !token.fired
  for (const b of at('menu-points').children) b.disabled = token.phase === 'done'
  at('menu').showModal()
}

// --- figures and words

function figure(id, value, on) {
  const e = at(id)
  put(e.querySelector('b'), String(value))
  e.classList.toggle('long', String(value).length > 3)
  e.classList.toggle('on', Boolean(on))
}

function sentence(v) {
  const said = v.said?.[language()] // texts of a load's judge
  return said && v.code === 'race' ? `${wrong(v)} ${said}` : said ?? wrong(v)
}

function wrong(v) {
  if (v.code !== 'race') return t(v.code)
  const parts = []
  if (v.oversold > 0) parts.push(t('race_oversold', { n: v.oversold }))
  if (v.lost > 0) parts.push(t('race_lost', { n: v.lost }))
  if (v.lost < 0) parts.push(t('race_gone', { n: -v.lost }))
  if (v.collisions > 0) parts.push(t('race_twins', { n: v.collisions }))
  return `${t('race')} ${parts.join(language() === 'zh' ? '，' : ', ')}${language() === 'zh' ? '。' : '.'}`
}

function put(e, text) { // a live region must change only with its text, and a layout costs more than a comparison
  if (e.textContent !== text) e.textContent = text
}

/** The caption of the run, and the counts that are not in the figures. */
function story() {
  const c = store.get('caption')
  const scene = at('scene')
  scene.hidden = !c
  scene.className = c?.phase ?? ''
  scene.dataset.caption = c?.key ?? ''
  const text = c ? t(c.key, c.values) : ''
  const label = c ? t(`phase_${c.phase}`) : ''
  if (at('cap').textContent !== label + text) at('cap').replaceChildren(element('b', { textContent: label }), text)
  at('why').hidden = !c?.why
  const why = c?.why ? t(c.why, c.values) : ''
  if (why && at('why').textContent !== t('phase_why') + why) {
    at('why').replaceChildren(element('b', { textContent: t('phase_why') }), why)
  }
  const n = store.get('tally')
  const plan = store.get('run')?.plan
  const list = !n || !c ? [] : [
    (n.wakes > 0 || plan?.strategy.startsWith('zk-')) && ['wakes', n.wakes], n.writes > 0 && !plan?.exclusive && ['writes', n.writes],
    n.sold_out > 0 && ['sold_out', n.sold_out], n.refused > n.late && ['refused', n.refused - n.late], n.late > 0 && ['late', n.late],
    n.silent > 0 && ['silent', n.silent],
  ].filter(Boolean)
  const now = JSON.stringify([list, language()])
  if (at('counts').dataset.now === now) return
  at('counts').dataset.now = now
  at('counts').replaceChildren(...list.map(([key, value]) => {
    const e = element('span', { className: key }, t(`count_${key}`), element('b', { textContent: value }))
    e.dataset.count = key
    return e
  }))
}

/** The leases of the lock: a bar shrinks by the page's clock, from what the server has reported. */
function lease() {
  const all = store.get('leases') ?? {}
  const now = player ? player.now : Date.now() * 1000
  document.body.classList.toggle('leased', Object.keys(all).length > 0)
  for (const app of about.apps) {
    const e = document.querySelector(`.app[data-app="${app}"] .lease`)
    const l = all[app]
    const bar = e.firstChild
    const left = l ? Math.max(0, l.left - (now - l.at) / 1000) : 0
    const gone = l && (l.over ? l.expired : left === 0)
    e.className = gone ? 'lease over' : 'lease'
    if (!l || l.over && !l.expired) { // none, or released
      bar.style.visibility = 'hidden'
      put(e.lastChild, '')
      e.dataset.times = 0
      continue
    }
    bar.style.visibility = ''
    bar.style.width = '100%'
    bar.style.transform = `scaleX(${Math.min(1, left / l.full).toFixed(4)})`
    const who = l.who || `#${l.n}`
    put(e.lastChild, gone ? t('lease_over', { who })
      : `${t('lease', { who, n: (left / 1000).toFixed(1) })}${
        l.times ? ` ${t('lease_times', { n: l.times })} ${'┃'.repeat(Math.min(6, l.times))}` : ''}`)
    e.dataset.times = l.times
    e.title = t('lease_asked')
  }
}

/** What the controls say is what runs, until the teacher changes them for the next run. */
let controlled = 0
function controls() {
  const run = store.get('run')
  const plan = run?.plan
  if (!plan || about.replay) return
  const values = { strategy: plan.strategy, stock: plan.stock, think: plan.think_ms }
  if (!plan.rate) values.requests = plan.requests
  else {
    values.rate = plan.rate
    values.lasts = plan.seconds ?? 0
  }
  if (controlled !== run.n) {
    controlled = run.n
    for (const [id, value] of Object.entries(values)) at(id).value = value
    stores()
    at('store').value = plan.store
  }
  values.store = plan.store
  const differ = Object.entries(values).some(([id, value]) => at(id).value !== String(value))
  at('for-next').hidden = !differ
  put(at('for-next'), differ ? t('for_next') : '')
}

function words() {
  const run = store.get('run')
  const v = store.get('verdict') ?? { code: 'idle' }
  const plan = run?.plan
  put(at('heading'), plan ? [plan.scene && t(`scene_${plan.scene}`), [plan.strategy, plan.store, plan.rate && t('per_second', { n: plan.rate })].filter(Boolean).join(' · ')].filter(Boolean).join(' — ') : t('title'))
  document.body.classList.toggle('voting', voting())
  put(at('verdict'), voting() ? t('verdict_hidden') : sentence(v))
  at('verdict').className = voting() ? '' : v.code
  controls()
  for (const b of at('scenes').querySelectorAll('li button')) {
    if (b.dataset.scene === plan?.scene) b.setAttribute('aria-current', 'true')
    else b.removeAttribute('aria-current')
  }
  const drawn = store.get('drawn')
  const latest = store.get('drawn_last')
  const unsent = store.get('rate')?.count
  put(at('dropped'), [v.dropped && t('dropped', { n: v.dropped }), unsent && t('unsent', { n: unsent }), drawn && t('drawn', drawn),
    latest && t('drawn_last', latest)].filter(Boolean).join(' '))
  at('dropped').hidden = at('dropped').textContent === ''
  const some = run?.n > 0
  figure('f-stock', some ? v.written : '–')
  put(at('truth'), some ? t('truth', { n: v.truth }) : '')
  at('truth').classList.toggle('off', some && v.truth !== v.written)
  figure('f-sold', some ? v.sold : '–')
  put(at('f-sold').querySelector('p'), some ? t('of', { n: v.initial }) : '')
  figure('f-oversold', some ? v.oversold : '–', v.oversold > 0)
  figure('f-lost', some ? v.lost : '–', some && v.lost !== 0 && v.known)
  story()
  at('b-pause').setAttribute('aria-pressed', String(paused()))
  put(at('pause-name'), t(paused() ? 'resume' : 'pause'))
  at('b-rate').setAttribute('aria-pressed', String(rated()))
  put(at('rate-name'), t(rated() ? 'rate_stop' : 'rate_fire'))
  put(at('vote-name'), t(voting() ? 'vote_close' : 'vote'))
  put(at('theme-name'), t(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'))
  put(at('think-shown'), t('seconds', { n: (Number(at('think').value) / 1000).toFixed(2) }))
  if (player) {
    put(at('p-play'), t(player.playing ? 'player_pause' : 'player_play'))
    at('p-at').value = (1000 * (player.now - player.from)) / Math.max(1, player.to - player.from)
    put(at('p-time'), t('seconds', { n: ((player.now - player.from) / 1e6).toFixed(3) }))
  }
  put(at('qr-crowd'), store.get('crowd') ? t('students', { n: store.get('crowd').crowd }) : '')
  ballot()
}

let counted = null // the values of the bars
function ballot() {
  const vote = store.get('voting')
  const now = `${JSON.stringify(vote)} ${language()}`
  if (now === counted) return
  counted = now
  const total = (vote?.votes ?? []).reduce((a, b) => a + b, 0)
  at('ballot').hidden = !vote || (!vote.on && total === 0)
  if (at('ballot').hidden) return
  put(at('vote-about'), vote.about ? t('vote_about', { run: t(`scene_${vote.about}`) }) : t('vote_about_next'))
  put(at('vote-question'), vote.asked || t(vote.about ? `ask_${vote.about}` : 'question'))
  if (vote.on) { // hidden, so that students think for themselves
    at('bars').replaceChildren(element('p', { textContent: t('votes', { n: total }) }))
    return
  }
  at('bars').replaceChildren(...vote.votes.map((n, i) => {
    const bar = element('i')
    bar.style.width = `${(100 * n) / Math.max(1, ...vote.votes)}%`
    return element('div', {}, element('span', { textContent: t(`choice_${i}`) }),
      element('span', { className: 'length' }, bar), element('b', { textContent: n }))
  }))
}

let stood = '' // the current content
function standing() {
  const now = JSON.stringify([[...store.under('server')], chosen, language()])
  if (now === stood) return
  stood = now
  for (const e of document.querySelectorAll('.app, .server')) {
    const name = e.dataset.app ?? e.dataset.server
    const state = stateOf(name) ?? 'up'
    const base = e.dataset.app ? `app${chosen === name ? ' chosen' : ''}` : 'server'
    e.className = `${base} ${state}`
    put(e.querySelector('.state'), t(state))
    const can = {
      freeze: state === 'up', wake: state === 'frozen', kill: state !== 'killed' && state !== 'starting', start: state === 'killed',
      delay: state === 'up', cut: state === 'up', mend: state === 'slow' || state === 'cut',
    }
    for (const b of e.querySelectorAll('[data-act]')) b.hidden = !can[b.dataset.act]
  }
}

// Figures that change more often are unreadable, and each change causes a layout of the whole page.
const wordsEvery = 200 // ms
let spoken = -wordsEvery // when the words were last updated
let later = 0

let waiting = false
function render() {
  if (waiting || !about) return
  waiting = true
  requestAnimationFrame(() => {
    waiting = false
    standing()
    const byApp = Map.groupBy(store.under('t'), ([, token]) => token.app)
    for (const app of about.apps) place(app, byApp.get(app) ?? [])
    const way = (byApp.get(undefined) ?? []).filter(([, token]) => token.phase !== 'done').length
    const since = performance.now() - spoken
    if (player || since >= wordsEvery) speak(way)
    else later ||= setTimeout(renderNow, wordsEvery - since)
  })
}

function speak(way) {
  spoken = performance.now()
  words()
  drawTies(at('ties'), document, store, tokens, callName, (names, n) => t('tie', { names, n }))
  put(at('way'), way ? t('way', { n: way }) : '')
  document.body.dataset.n = store.get('run')?.n ?? 0
  document.body.dataset.verdict = store.get('verdict')?.code ?? ''
}

/** Updates the words at once: the interval is over, or the user has just acted. */
function renderNow() {
  clearTimeout(later)
  later = 0
  spoken = -wordsEvery
  render()
}

const name = (server, state) => `${server}: ${t(state)}`
const seconds = (n) => t('seconds', { n })
function charts() {
  if (!about || document.hidden) return
  lease()
  const time = span(store, player ? player.now : Date.now() * 1000)
  const seen = drawHolds(at('holds'), store, about.apps, time, seconds, name)
  drawLine(at('line'), store, time, seconds, name)
  at('holds').setAttribute('aria-label', t('chart', { n: seen.holds, m: seconds(seen.overlap.toFixed(2)) }))
  at('holds').dataset.overlap = seen.overlap
  at('holds').dataset.ahead = seen.ahead
  at('line').setAttribute('aria-label', t('line'))
}

// --- the connection

let source = null
let arrived = () => {} // the first frame is shown
function listen() {
  source?.close()
  source = null
  if (document.hidden) return // when visible again, the page gets a snapshot first
  source = new EventSource('api/stream')
  source.onopen = () => alarm('')
  source.onerror = () => {
    arrived()
    alarm(t('connection'))
  }
  source.onmessage = (e) => {
    const frame = JSON.parse(e.data)
    store.apply(frame)
    render()
    arrived()
  }
}

/** Hides the controls of servers: there are no servers, or they are not ours. */
function replay() {
  document.body.classList.add('replay')
  at('controls').hidden = at('b-scenes').hidden = at('b-keys').hidden = at('b-next').hidden = true
  at('player').hidden = false
  at('p-save').hidden = at('p-live').hidden = !about.back
  at('p-live').addEventListener('click', keys.i)
  player = new Player(about.frames, store, render)
  at('p-play').addEventListener('click', () => player.play(!player.playing))
  at('p-back').addEventListener('click', () => player.step(-1))
  at('p-on').addEventListener('click', () => player.step(1))
  at('p-at').addEventListener('input', () => {
    player.playing = false
    player.seek(player.from + (Number(at('p-at').value) / 1000) * (player.to - player.from))
  })
  at('p-pace').addEventListener('change', () => { player.pace = Number(at('p-pace').value) })
  player.seek(player.to) // the result first
}

async function enter() {
  const token = location.hash.slice(1)
  if (token && !at('recording')) {
    await post('api/enter', { token })
    history.replaceState(null, '', location.pathname + location.search) // so that the projector does not show the token
  }
  const inside = at('recording')
  if (inside) {
    about = JSON.parse(inside.textContent)
  } else {
    const asked = new URLSearchParams(location.search).has('replay')
    let res = await fetch(asked ? 'api/replay' : 'api/class')
    if (asked && res.status === 404) {
      alarm(t('reason_no_tape'))
      res = await fetch('api/class')
    }
    if (!res.ok) {
      put(at('verdict'), t('locked'))
      return
    }
    about = await res.json()
  }
  if (about.lang && !new URLSearchParams(location.search).has('lang')) choose(about.lang)
  build()
  if (about.replay) {
    replay()
  } else {
    at('strategy').value = 'none'
    stores()
    // Before a teacher can change the controls, they say what runs.
    const first = new Promise((done) => { arrived = done })
    listen()
    if (source) await first
    controls()
  }
  setInterval(charts, 100)
  render()
}

at('controls').addEventListener('submit', (e) => {
  e.preventDefault()
  const inRate = [at('rate'), at('lasts')].includes(document.activeElement)
  inRate ? fireSteadily() : fire()
})
at('strategy').addEventListener('change', stores)
at('think').addEventListener('input', renderNow)
for (const [id, key] of [['b-more', 'b'], ['b-pause', 'p'], ['b-step', 'n'], ['b-vote', 'v'], ['b-rate', 'r'], ['b-replay', 'i'], ['b-theme', 't'], ['b-lang', 'e'], ['b-next', 'arrowright'], ['b-show', '.']]) {
  at(id).addEventListener('click', () => keys[key]())
}
for (const b of document.querySelectorAll('[data-opens]')) b.addEventListener('click', () => toggle(b.dataset.opens))
for (const b of document.querySelectorAll('dialog .close')) b.addEventListener('click', () => b.closest('dialog').close())
at('ask-own').addEventListener('submit', (e) => {
  e.preventDefault()
  const asked = at('asked').value.trim()
  if (asked) ask({ asked })
})
at('menu-go').addEventListener('click', () => {
  at('menu').close()
  act({ do: 'go', req: opened })
})
at('menu-again').addEventListener('click', () => {
  at('menu').close()
  act({ do: 'again', req: opened })
})
document.addEventListener('visibilitychange', () => about && !player && listen())
addEventListener('pageshow', (e) => e.persisted && about && !player && listen())

await load()
document.documentElement.dataset.theme = new URLSearchParams(location.search).get('theme') === 'dark' ? 'dark' : 'light'
if (new URLSearchParams(location.search).has('show')) {
  document.body.classList.add('show')
  at('b-show').setAttribute('aria-pressed', 'true')
}
put(at('heading'), t('title'))
if (!has('title')) throw new Error('no words')
await enter()
document.body.dataset.ready = 'true'
