// The wall. It shows the frames of the class, and sends the teacher's commands.
import { choose, has, language, load, other, outcome, post, t, verdictOf, wide } from './words.js'
import { Player } from './player.js'
import { Store } from './store.js'
import { requestBox } from './pens.js'
import { modelOf, pictureOf } from './picture.js'

const at = (id) => document.getElementById(id)
const store = new Store()
let about = null // the choices
let chosen = null // the chosen instance
let opened = null // the request whose menu is open
let player = null // of a kept run; null: live

// --- commands

async function act(body) {
  if (player) return
  const { why } = await post('api/do', body)
  alarm(why && t('refused', { why }))
}

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
  do: 'fire', plan: chosenPlan({ rate: Math.max(1, Number(at('rate').value)), seconds: Number(at('lasts').value) }),
})
const rated = () => Boolean(store.get('rate')?.on)
const paused = () => Boolean(store.get('pause')?.on)
const voting = () => Boolean(store.get('voting')?.on)
const { stateOf } = store
const freeze = (app) => act({ do: 'fault', server: app, act: stateOf(app) === 'frozen' ? 'wake' : 'freeze' })
const kill = (app) => act({ do: 'fault', server: app, act: stateOf(app) === 'killed' ? 'start' : 'kill' })

const keys = {
  f: fire,
  r: () => rated() ? act({ do: 'stop' }) : fireSteadily(),
  b: () => act({ do: 'more' }),
  p: () => act({ do: 'pause', on: !paused() }),
  n: () => act({ do: 'step' }),
  v: () => voting() ? counting() : asking(),
  arrowright: onward,
  pagedown: onward,
  ' ': () => act({ do: 'auto', on: !store.get('auto')?.on }),
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
    else if (key === 'pageup') player.leaf(-1)
    else if (key === 'pagedown') player.leaf(1)
    else if (key === 'home') player.seek(player.from)
    else if (key === 'end') player.seek(player.to)
    else if ('eti'.includes(key)) keys[key]()
    else if (key === 'escape') keys.i()
    else return
    e.preventDefault()
    return
  }
  if (document.querySelector('dialog[open]') && (key.startsWith('arrow') || key === ' ')) return
  if (key === ' ' && e.target.matches?.('button')) return
  const scene = about.scenes.find((s) => s.key === key)
  const app = about.apps[Number(key) - 1]
  if (keys[key]) keys[key]()
  else if (app) select(app)
  else if (scene) play(scene.name)
  else return
  e.preventDefault()
})

/** Goes on at a stop. When the scene is over, or there is none, the next one begins. */
function onward() {
  const stop = store.get('stop')
  const scene = store.get('run')?.plan?.scene
  if (stop?.on) act({ do: 'onward' })
  else if (!scene || stop?.n === stop?.of || store.get('caption')?.phase === 'done') lead(1)
}

let led = -1 // the index of the scene that was played last, for "next scene"
function lead(by) {
  const current = about.scenes.findIndex((s) => s.name === store.get('run')?.plan?.scene)
  const next = (current >= 0 ? current : led) + by
  if (next >= 0 && next < about.scenes.length) play(about.scenes[next].name)
}

/** Shows what the teacher needs to do things by hand, or hides it: the class does not need to see it. */
function show() {
  at('controls').hidden = !at('controls').hidden
  at('b-show').setAttribute('aria-pressed', String(!at('controls').hidden))
}

/** Lets the teacher add the hands that are up, and ends the vote. */
function counting() {
  at('hands-list').replaceChildren(...store.get('voting').votes.map((_, i) => element('label', {},
    element('span', { textContent: t(`choice_${i}`) }),
    element('input', { type: 'number', min: 0, max: 999, value: 0 }))))
  toggle('hands')
  at('hands-list').querySelector('input').select()
}

/** Lets the teacher choose what the class votes on. The prepared questions begin with the next scene. */
function asking() {
  const last = Math.max(led, about.scenes.findIndex((s) => s.name === store.get('run')?.plan?.scene))
  const list = about.scenes.map((_, i) => about.scenes[(i + last + 1) % about.scenes.length])
  at('ask').querySelector('ol').replaceChildren(...list.map((s) => {
    const b = element('button', { type: 'button' }, element('kbd', { textContent: s.key.toUpperCase() }),
      ` ${t(`ask_${s.name}`)}`)
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
  stood = ''
  renderNow()
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

function build() {
  if (about.replay) return
  stood = ''
  const fault = (server, name) => act({ do: 'fault', server, act: name })
  const acts = (server) => about.apps.includes(server) ? ['freeze', 'wake', 'kill', 'start']
    : ['kill', 'start', 'delay', 'cut', 'mend']
  at('servers').replaceChildren(...[...about.apps, ...about.servers].map((server) => {
    const e = element('div', { className: 'server' }, element('b', { textContent: server }),
      element('span', { className: 'state' }),
      ...buttons(acts(server).map((name) => [name, () => fault(server, name)])))
    e.dataset.server = server
    return e
  }))
  at('strategy').replaceChildren(...about.strategies.map((s) => element('option', {
    value: s.name, textContent: s.name, disabled: Boolean(s.reason), title: s.reason ?? '',
    selected: s.name === at('strategy').value,
  })))
  stores()
  at('scenes').querySelector('ol').replaceChildren(...about.scenes.map((s) => {
    const b = element('button', { type: 'button' }, element('kbd', { textContent: s.key.toUpperCase() }),
      ` ${t(`scene_${s.name}`)}`)
    b.dataset.scene = s.name
    b.addEventListener('click', () => play(s.name))
    return element('li', {}, b)
  }))
  const named = [['F', 'f'], ['R', 'r'], ['B', 'b'], ['P', 'p'], ['N', 'n'], ['1 2 3', '123'], ['W', 'w'], ['K', 'k'],
    ['V', 'v'], ['→', 'next'], ['←', 'last'], ['␣', 'auto'], ['.', 'show'], ['O', 'o'],
    ['I', 'i'], ['Q', 'q'], ['E', 'e'], ['T', 't'], ['?', '?']]
  at('keys').querySelector('dl').replaceChildren(...named.flatMap(([key, word]) => [
    element('dt', {}, element('kbd', { textContent: key })), element('dd', { textContent: t(`key_${word}`) }),
  ]))
  at('menu-points').replaceChildren(...['after_lock', 'after_read', 'before_write', 'after_write',
    'after_unlock'].map((point) => {
    const b = element('button', { type: 'button', textContent: t(point) })
    b.addEventListener('click', () => {
      at('menu').close()
      act({ do: 'hold', req: opened, point })
    })
    return b
  }))
  at('b-qr').hidden = !about.join
  if (about.join) {
    at('qr-url').textContent = about.join
    at('qr-picture').src = 'api/join.png'
    at('qr-picture').alt = about.join
  }
}

function stores() {
  const s = about.strategies.find((s) => s.name === at('strategy').value)
  const kept = at('store').value
  at('store').replaceChildren(...(s?.stores ?? []).map((name) => element('option',
    { value: name, textContent: name, selected: name === kept })))
}

// --- tokens

const tokens = new Map() // groups of the picture, by request
const laneOf = {
  waits: 'waits', in: 'read', read: 'read', thinks: 'thinks', writes: 'writes', wrote: 'writes', done: 'done',
}
const svgns = 'http://www.w3.org/2000/svg'

/** The group of a request, which slides to its place. */
function face(id) {
  let g = tokens.get(id)
  if (!g) {
    g = document.createElementNS(svgns, 'g')
    g.dataset.req = id
    g.setAttribute('role', 'button')
    g.setAttribute('tabindex', '0')
    g.addEventListener('click', () => menu(id))
    g.addEventListener('keydown', (e) => {
      if (e.key !== 'Enter' && e.key !== ' ') return
      e.stopPropagation()
      e.preventDefault()
      menu(id)
    })
    at('tokens').append(g)
    tokens.set(id, g)
  }
  return g
}

const titleOf = (token) => t('token', {
  n: token.n, phase: token.phase === 'done' ? outcome(token.outcome) : t(laneOf[token.phase] ?? 'sent'),
})

function describe(token) {
  const parts = [titleOf(token)]
  if (token.who) parts.push(token.who)
  if (token.read !== undefined) parts.push(t('token_read', { n: token.read }))
  if (token.wrote !== undefined) parts.push(t('token_wrote', { n: token.wrote }))
  if (token.fence) parts.push(t('token_fence', { n: token.fence }))
  if (token.than) parts.push(t('token_refused', { n: token.fence, than: token.than }))
  if (token.point) parts.push(t('token_at', { point: t(token.point) }))
  if (token.twin) parts.push(t('token_twin'))
  if (token.same) parts.push(t('token_same', { n: token.same }))
  if (token.replayed) parts.push(t('token_replayed'))
  return parts.join(', ')
}

/** Draws the run. What has not changed is not touched. */
let painted = {}
function paint() {
  if (!about) return
  const model = modelOf(store, about, player ? player.now : Date.now() * 1000)
  const picture = pictureOf(model)
  for (const layer of ['back', 'front']) {
    if (painted[layer] === picture[layer]) continue
    painted[layer] = picture[layer]
    at(layer).innerHTML = picture[layer]
  }
  const shown = new Set()
  for (const one of picture.tokens) {
    shown.add(one.id)
    const g = face(one.id)
    const where = `translate(${one.x.toFixed(1)}px, ${one.y.toFixed(1)}px)`
    const look = requestBox(one)
    if (g.where !== where) g.style.transform = g.where = where
    if (g.look !== look) g.innerHTML = g.look = look
    const { one: token, state } = one
    const names = ['tok', state, token.point && 'stands', token.replayed && 'replayed', one.star && 'woken',
      one.h <= 20 && 'small'].filter(Boolean).join(' ')
    if (g.getAttribute('class') !== names) g.setAttribute('class', names)
    g.dataset.phase = token.phase
    const said = describe(token)
    if (g.said !== said) g.setAttribute('aria-label', g.said = said)
  }
  for (const [id, g] of tokens) {
    if (shown.has(id)) continue
    g.remove()
    tokens.delete(id)
  }
}

function menu(id) {
  if (player) return
  const token = store.get(`t:${id}`)
  if (!token) return
  opened = id
  at('menu-title').textContent = titleOf(token)
  at('menu-what').textContent = describe(token)
  at('menu-go').hidden = !token.point
  at('menu-again').hidden = !token.fired
  for (const b of at('menu-points').children) b.disabled = token.phase === 'done'
  at('menu').showModal()
}

// --- figures and words

function figure(id, value, on) {
  const e = at(id)
  const b = e.querySelector('b')
  put(b, String(value))
  b.style.fontSize = `${Math.min(64, 140 / String(value).length)}px`
  e.classList.toggle('on', Boolean(on))
}

function put(e, text) { // a live region must change only with its text, and a layout costs more than a comparison
  if (e.textContent !== text) e.textContent = text
}

/** What the class reads: the question of a vote, the caption of the run, or the sentence of a load's judge. */
function captionOf(vote, c) {
  if (vote) return vote.asked || t(vote.about ? `ask_${vote.about}` : 'question')
  return c ? t(c.key, c.values) : store.get('verdict')?.said?.[language()] ?? t('idle')
}

/** The counts that are not in the figures, at most two. */
function countsOf(plan, n) {
  const free = plan.scope === 'cluster' && !plan.exclusive
  const crowd = plan.requests > 8 || plan.rate
  return [
    ['wakes', crowd ? n.wakes : 0], ['writes', free ? n.writes : 0], ['silent', n.silent], ['refused', n.refused],
  ].filter(([, value]) => value > 0).slice(0, 2)
}

/** The caption of the run, and its counts. */
function story() {
  const c = store.get('caption')
  const since = Math.max(store.get('run')?.at ?? 0, store.get('stop')?.at ?? 0)
  const vote = voting() || store.get('voting')?.at > since ? store.get('voting') : null
  const scene = at('scene')
  const words = captionOf(vote, c)
  const list = c && !vote ? countsOf(store.get('run').plan, store.get('tally')) : []
  scene.className = c?.phase ?? ''
  scene.dataset.caption = c?.key ?? ''
  scene.classList.toggle('long', wide(words, 16) > 1200 - 200 * list.length)
  put(scene, words)
  const now = JSON.stringify([list, language()])
  if (at('counts').dataset.now === now) return
  at('counts').dataset.now = now
  at('counts').replaceChildren(...list.map(([key, value]) => {
    const e = element('span', {}, t(`count_${key}`), element('b', { textContent: value }))
    e.dataset.count = key
    return e
  }))
}

/** What the controls say is what runs, until the teacher changes them for the next run. */
let controlled = 0
function controls() {
  const run = store.get('run')
  const plan = run?.plan
  if (!plan || about.replay) return
  if (controlled === run.n) return
  controlled = run.n
  const values = { strategy: plan.strategy, stock: plan.stock, think: plan.think_ms }
  if (!plan.rate) values.requests = plan.requests
  else {
    values.rate = plan.rate
    values.lasts = plan.seconds ?? 0
  }
  for (const [id, value] of Object.entries(values)) at(id).value = value
  stores()
  at('store').value = plan.store
}

function headingOf(plan) {
  if (plan.scene) return `${t(`scene_${plan.scene}`)} — ${plan.strategy}`
  return [plan.strategy, plan.store, plan.rate && t('per_second', { n: plan.rate })].filter(Boolean).join(' · ')
}

function words() {
  const run = store.get('run')
  const v = store.get('verdict') ?? { code: 'idle' }
  const plan = run?.plan
  put(at('heading'), plan ? headingOf(plan) : t('title'))
  put(at('verdict'), voting() ? t('verdict_hidden') : run?.n > 0 ? verdictOf(v) : '')
  at('verdict').className = voting() ? '' : v.code
  controls()
  for (const b of at('scenes').querySelectorAll('li button')) {
    if (b.dataset.scene === plan?.scene) b.setAttribute('aria-current', 'true')
    else b.removeAttribute('aria-current')
  }
  const latest = store.get('drawn_last')
  const unsent = store.get('rate')?.count
  put(at('dropped'), [
    v.dropped && t('dropped', { n: v.dropped }), unsent && t('unsent', { n: unsent }),
    latest && t('drawn_last', latest),
  ].filter(Boolean).join(' '))
  at('dropped').hidden = at('dropped').textContent === ''
  const some = run?.n > 0 && !voting()
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
  put(at('rate-name'), t(rated() ? 'rate_stop' : 'rate_fire'))
  put(at('vote-name'), t(voting() ? 'vote_close' : 'vote'))
  at('b-auto').setAttribute('aria-pressed', String(Boolean(store.get('auto')?.on)))
  const stop = store.get('stop')
  at('b-next').classList.toggle('main', Boolean(stop?.on))
  put(at('stops'), stop ? '●'.repeat(stop.n) + '○'.repeat(stop.of - stop.n) : '')
  put(at('theme-name'), t(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'))
  if (player) {
    put(at('p-play'), t(player.playing ? 'player_pause' : 'player_play'))
    at('p-at').value = (1000 * (player.now - player.from)) / Math.max(1, player.to - player.from)
    put(at('p-time'), t('seconds', { n: ((player.now - player.from) / 1e6).toFixed(3) }))
  }
  put(at('qr-crowd'), store.get('crowd') ? t('students', { n: store.get('crowd').crowd }) : '')
}

let stood = '' // the current content
function standing() {
  const now = JSON.stringify([[...store.under('faults')], chosen, language()])
  if (now === stood) return
  stood = now
  for (const e of document.querySelectorAll('.server')) {
    const name = e.dataset.server
    const state = stateOf(name)
    e.className = `server ${state}${chosen === name ? ' chosen' : ''}`
    put(e.querySelector('.state'), t(state))
    const can = {
      freeze: state === 'up', wake: state === 'frozen', kill: state !== 'killed' && state !== 'starting',
      start: state === 'killed', delay: state === 'up', cut: state === 'up', mend: state === 'slow' || state === 'cut',
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
    paint()
    const since = performance.now() - spoken
    if (player || since >= wordsEvery) speak()
    else later ||= setTimeout(renderNow, wordsEvery - since)
  })
}

function speak() {
  spoken = performance.now()
  words()
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

/** Time goes on while requests are under way, also without a frame. */
function tick() {
  if (document.hidden || !about) return
  if (player || [...store.under('t').values()].some((token) => token.phase !== 'done')) paint()
}

/** The page is as large as the screen allows. */
function fit() {
  const scale = Math.min(innerWidth / 1280, innerHeight / 720)
  const [x, y] = [(innerWidth - 1280 * scale) / 2, (innerHeight - 720 * scale) / 2]
  at('stage').style.transform = `translate(${x}px, ${y}px) scale(${scale})`
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
  at('controls').hidden = true
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
  setInterval(tick, 100)
  render()
}

at('controls').addEventListener('submit', (e) => {
  e.preventDefault()
  const inRate = [at('rate'), at('lasts')].includes(document.activeElement)
  inRate ? fireSteadily() : fire()
})
at('strategy').addEventListener('change', stores)
for (const b of document.querySelectorAll('[data-key]')) b.addEventListener('click', () => about
  && keys[b.dataset.key]())
for (const b of document.querySelectorAll('dialog .close')) b.addEventListener('click',
  () => b.closest('dialog').close())
at('ask-own').addEventListener('submit', (e) => {
  e.preventDefault()
  const asked = at('asked').value.trim()
  if (asked) ask({ asked })
})
at('hands-form').addEventListener('submit', (e) => {
  e.preventDefault()
  at('hands').close()
  act({ do: 'vote', on: false, hands: [...at('hands-list').querySelectorAll('input')].map((input) => Math.max(0,
    Math.round(Number(input.value)))) })
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
addEventListener('resize', fit)
fit()
put(at('heading'), t('title'))
if (!has('title')) throw new Error('no words')
await enter()
document.body.dataset.ready = 'true'
