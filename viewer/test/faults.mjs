// What is wrong with a page for some users (WCAG 2.2, level AA).

/** Returns what is wrong with the visible elements: controls without a name, duplicate ids, and texts with a contrast below 4.5. */
export const faults = (page) =>
    page.evaluate(() => {
        const wrong = [];
        const seen = new Set();
        for (const { id } of document.querySelectorAll('[id]')) {
            if (seen.has(id)) wrong.push(`two elements have the id ${id}`);
            seen.add(id);
        }
        const visible = (it) => it.checkVisibility({ visibilityProperty: true, opacityProperty: true });
        for (const it of document.querySelectorAll('button, input, select, textarea, [role="separator"], [role="tree"], [role="listbox"], [role="img"], dialog[open], canvas:not([aria-hidden])')) {
            if (!visible(it)) continue;
            const by = it.getAttribute('aria-labelledby');
            const label = it.labels?.[0]?.textContent || it.getAttribute('aria-label') || (by && document.getElementById(by)?.textContent) || (it.matches('button') && it.textContent) || '';
            if (label.trim() === '') wrong.push(`no name: ${it.outerHTML.slice(0, 120)}`);
        }
        const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
        const rgba = (color) => {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = color;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
        };
        const light = ([r, g, b]) => {
            const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
            return 0.2126 * x + 0.7152 * y + 0.0722 * z;
        };
        /** Returns the colours behind a text: that of its background, and of the bar in it. */
        const behind = (it) => {
            const bar = it.closest('td.bar');
            const bars = bar ? [rgba(getComputedStyle(bar).getPropertyValue('--bar'))] : [];
            for (let at = it; at; at = at.parentElement) {
                const color = rgba(getComputedStyle(at).backgroundColor);
                if (color[3] === 255) return [color, ...bars];
            }
            return [rgba(getComputedStyle(document.body).backgroundColor), ...bars];
        };
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        for (let node = walk.nextNode(); node; node = walk.nextNode()) {
            const it = node.parentElement;
            if (!node.textContent.trim() || !visible(it) || it.closest(':disabled, script, style')) continue;
            const style = getComputedStyle(it);
            const own = light(rgba(it instanceof SVGElement ? style.fill : style.color));
            const contrasts = behind(it).map(light).map((other) => (Math.max(own, other) + 0.05) / (Math.min(own, other) + 0.05));
            const contrast = Math.min(...contrasts);
            if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(2)}: ${node.textContent.trim().slice(0, 40)} in ${it.className || it.tagName}`);
        }
        return [...new Set(wrong)];
    });
