'use strict';
(() => {
  const svg = document.currentScript.ownerSVGElement;
  const find = (id) => svg.querySelector('#' + id);
  const data = JSON.parse(find('data').textContent);
  const graph = find('graph'), head = find('head'), info = find('info');
  const {row: ROW, top: TOP, margin: MARGIN, min: MIN, char: CHAR} = data;
  const hint = info.textContent;
  let turned = data.icicle, shown = [], width = 0, term = '';

  // The tree, from boxes that each stand before those on top of them.
  const all = [];
  const open = [];
  for (let at = 0; at < data.boxes.length; at += data.step) {
    const [name, own, total, kids] = data.boxes.slice(at, at + 4);
    const before = data.step > 4 ? data.boxes.slice(at + 4, at + 6) : null;
    const parent = open[open.length - 1];
    const node = {name: data.names[name], own, total, before, parent, left: kids, kids: [], merged: 0};
    if (node.name[2] === 'm') { node.merged = own; node.own = 0; }
    if (parent) { parent.kids.push(node); parent.left--; }
    all.push(node);
    open.push(node);
    while (open.length && open[open.length - 1].left === 0) open.pop();
  }
  const root = all[0];
  let zoomed = root;

  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
  const bytes = (n) => {
    const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
    let at = 0;
    while (n >= 1024 && at < 4) { n /= 1024; at++; }
    return (at ? n.toFixed(1) : n) + ' ' + units[at];
  };
  const amount = (n) => data.unit === 'bytes' ? bytes(n) : data.unit === 'ns'
    ? (n < 1e9 ? (n / 1e6).toFixed(1) + ' ms' : (n / 1e9).toFixed(2) + ' s')
    : grouped(n) + ' ' + (n === 1 && data.unit === 'samples' ? 'sample' : data.unit);
  const percent = (n, of) => (100 * n / Math.max(1, of)).toFixed(1) + ' %';

  function describe(node) {
    if (node.merged) return `… ${grouped(node.merged)} functions, too small to show: ${percent(node.total, root.total)}, ${amount(node.total)}`;
    let text = node.name[0] + (node.name[1] && node.name[1] !== node.name[0] ? ` (${node.name[1]})` : '');
    text += `: ${percent(node.total, root.total)}, ${amount(node.total)}; itself ${percent(node.own, root.total)}`;
    if (node.before) text += `; before ${percent(node.before[1], root.before[1])}, itself ${percent(node.before[0], root.before[1])}`;
    return text;
  }

  // What of a short name fits into so many characters: without the modules that it is in, or else its end.
  function fit(name, chars) {
    if (chars < 3) return '';
    let short = name;
    while (short.length > chars) {
      const at = short.indexOf('::');
      if (at < 0 || short[at + 2] === '{') break;
      short = short.slice(at + 2);
    }
    if (short.length > chars) return short.slice(0, chars - 1) + '…';
    return short.length < name.length && short.length * 2 < chars ? '…' + name.slice(1 - chars) : short;
  }

  function kind(node) {
    if (!data.growth || node.name[2] === 't' || node.name[2] === 'm') return node.name[2];
    const growth = node.own / Math.max(1, root.total) - node.before[0] / Math.max(1, root.before[1]);
    node.strength = Math.sqrt(Math.abs(growth) / data.growth);
    return Math.abs(growth) < 0.0005 ? 'same' : growth > 0 ? 'more' : 'less';
  }

  // Boxes of the window, from the one that is enlarged.
  function layout() {
    const placed = [];
    const callers = [];
    for (let node = zoomed.parent; node; node = node.parent) if (!node.merged) callers.unshift(node);
    let row = 0;
    const wide = (node, label) => placed.push({node, row: row++, x: 0, w: width, label, caller: true});
    if (callers.length > 4) {
      wide(callers[0]);
      wide(callers[1]);
      wide(callers[callers.length - 2], `… ${callers.length - 3} more callers`);
      wide(callers[callers.length - 1]);
    } else callers.forEach((node) => wide(node));
    const base = row;
    const fill = [];
    const todo = [{node: zoomed, row, x: 0, w: width}];
    while (todo.length) {
      const at = todo.pop();
      placed.push(at);
      fill[at.row - base] = (fill[at.row - base] || 0) + at.w;
      const scale = at.w / Math.max(1, at.node.total);
      let x = at.x;
      let small = null;
      for (const node of at.node.kids) {
        const w = node.total * scale;
        if (w >= MIN && (!node.merged || node.kids.length)) {
          todo.push({node, row: at.row + 1, x, w});
        } else {
          small = small || {name: data.names[1], own: 0, total: 0, merged: 0, kids: [], parent: at.node, x};
          small.total += node.total;
          small.merged += node.merged || 1;
          if (!node.merged) small.kids.push(node);
        }
        x += w;
      }
      if (small && small.total * scale >= 0.5) placed.push({node: small, row: at.row + 1, x: small.x, w: small.total * scale});
    }
    let rows = 0;
    fill.forEach((w, row) => { if (w >= width * data.fill) rows = row + 1; });
    rows = base + Math.min(data.most, Math.max(data.least, rows));
    const kept = placed.filter((at) => at.row <= rows);
    for (const at of kept) if (at.row === rows) at.deeper = true;
    return kept;
  }

  const make = (name, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return element;
  };

  // Alone in a window the image is as large as that, and scrolls inside, so that the head stays in sight.
  const alone = svg === document.documentElement;
  let hidden = 0, up = 0;

  function draw() {
    const inner = alone ? window.innerWidth : data.width;
    width = inner - 2 * MARGIN;
    shown = layout();
    const rows = 1 + shown.reduce((most, at) => Math.max(most, at.row), 0);
    const content = TOP + rows * ROW + MARGIN;
    const seen = alone ? window.innerHeight : content;
    const page = Math.max(content, seen);
    svg.setAttribute('width', inner);
    svg.setAttribute('height', seen);
    svg.setAttribute('viewBox', `0 0 ${inner} ${seen}`);
    const drawn = shown.map((at, i) => {
      const y = turned ? TOP + at.row * ROW : page - MARGIN - (at.row + 1) * ROW;
      const sort = at.deeper ? 'm' : kind(at.node);
      const odd = at.node.name[3] ? ' s' : '';
      const hit = term && !at.deeper && !at.node.merged && at.node.name[0].toLowerCase().includes(term) ? ' hit' : '';
      const box = make('g', {class: `b ${sort}${odd}${hit}`, 'data-i': i});
      const rect = make('rect', {x: MARGIN + at.x, y, width: at.w, height: ROW - 1, rx: 1});
      if (sort === 'more' || sort === 'less') rect.style.fill = shade(sort, at.node.strength);
      if (at.caller) rect.style.opacity = 0.7;
      box.append(rect);
      const name = at.label || (at.deeper || at.node.merged ? '…' : at.node.name[4] || at.node.name[0]);
      const chars = Math.floor((at.w - 6) / CHAR);
      const label = name === '…' ? (at.w > 10 ? '…' : '') : fit(name, chars);
      if (label) {
        const text = make('text', {x: MARGIN + at.x + 3, y: y + ROW - 5});
        text.textContent = label;
        box.append(text);
      }
      return box;
    });
    graph.replaceChildren(...drawn);
    find('page').setAttribute('height', seen);
    find('reset').style.display = zoomed === root && !term ? 'none' : '';
    svg.querySelectorAll('.head').forEach((rect) => rect.setAttribute('width', inner));
    svg.querySelectorAll('.line').forEach((line) => line.setAttribute('x2', inner));
    find('buttons').setAttribute('transform', `translate(${inner - data.width},0)`);
    find('buttons').style.display = '';
    hidden = page - seen;
    scroll(turned ? 0 : hidden);
  }

  function scroll(to) {
    up = Math.max(0, Math.min(hidden, to));
    graph.setAttribute('transform', `translate(0,${-up})`);
    const bar = find('bar');
    const room = window.innerHeight - TOP;
    bar.style.display = hidden > 0 ? '' : 'none';
    bar.setAttribute('x', window.innerWidth - 7);
    bar.setAttribute('y', TOP + room * up / (room + hidden));
    bar.setAttribute('height', room * room / (room + hidden));
  }

  // From the colour of no change to that of the greatest.
  function shade(sort, strength) {
    const to = sort === 'more' ? [226, 62, 50] : [56, 112, 214];
    const from = [241, 238, 232];
    const mix = from.map((c, i) => Math.round(c + (to[i] - c) * Math.min(1, strength)));
    return `rgb(${mix})`;
  }

  function say(text) { info.textContent = text; }

  function search() {
    const asked = window.prompt('Mark functions whose name has:', term);
    if (asked === null) return;
    term = asked.toLowerCase();
    let total = 0;
    const todo = term ? [root] : [];
    while (todo.length) {
      const node = todo.pop();
      if (!node.merged && node !== root && node.name[0].toLowerCase().includes(term)) total += node.total;
      else todo.push(...node.kids);
    }
    draw();
    say(term ? `"${asked}" is in ${percent(total, root.total)} of the callstacks: ${amount(total)}` : hint);
  }

  const under = (event) => {
    const box = event.target.closest && event.target.closest('[data-i]');
    return box && shown[box.dataset.i];
  };
  svg.addEventListener('click', (event) => {
    const at = under(event);
    if (!at) return;
    zoomed = at.deeper && at.node.parent ? at.node.parent : at.node.merged && !at.node.kids.length ? at.node.parent : at.node;
    draw();
    say(describe(zoomed));
  });
  svg.addEventListener('mouseover', (event) => {
    const at = under(event);
    if (at) say(at.deeper ? 'More callers and callees than are shown: click to see them' : describe(at.node));
  });
  find('reset').addEventListener('click', () => { zoomed = root; term = ''; draw(); say(hint); });
  find('search').addEventListener('click', search);
  find('turn').addEventListener('click', () => { turned = !turned; draw(); });
  window.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') { zoomed = root; term = ''; draw(); say(hint); }
    if (event.key === 'f' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); search(); }
  });
  window.addEventListener('wheel', (event) => {
    if (event.ctrlKey || hidden === 0) return;
    event.preventDefault();
    scroll(up + event.deltaY * (event.deltaMode ? ROW : 1));
  }, {passive: false});
  const steps = {ArrowUp: -ROW, ArrowDown: ROW, PageUp: -20 * ROW, PageDown: 20 * ROW, Home: -1e6, End: 1e6};
  window.addEventListener('keydown', (event) => {
    if (alone && event.key in steps) scroll(up + steps[event.key]);
  });
  window.addEventListener('resize', draw);
  draw();
})();
