// The picture with the names of its rows as an image file.

import type { App } from './app';
import { byId, el } from './dom';
import { save } from './grid';

/** Draws the visible picture: the names of the rows on the left, the canvases on the right. */
function compose(app: App): HTMLCanvasElement {
    const { scene, stage } = app;
    const names = byId('labels');
    const [left, right] = [names.getBoundingClientRect(), stage.getBoundingClientRect()];
    const { ratio } = scene;
    const image = el('canvas', { width: Math.round((right.right - left.left) * ratio), height: Math.round(right.height * ratio) });
    const context = image.getContext('2d')!;
    context.scale(ratio, ratio);
    const style = getComputedStyle(document.body);
    context.fillStyle = style.backgroundColor;
    context.fillRect(0, 0, image.width, image.height);
    // A graphics card keeps its picture only until the next frame.
    scene.draw(app.picture);
    for (const canvas of stage.querySelectorAll('canvas')) context.drawImage(canvas, right.left - left.left, 0, right.width, right.height);
    context.textBaseline = 'middle';
    for (const text of names.querySelectorAll<HTMLElement>('.label .twist, .label .what, .label .meta')) {
        const box = text.getBoundingClientRect();
        const row = text.closest('.label')!.getBoundingClientRect();
        if (box.width === 0 || row.bottom <= right.top || row.top >= right.bottom) continue;
        const look = getComputedStyle(text);
        context.save();
        context.beginPath();
        context.rect(box.left - left.left, Math.max(0, row.top - right.top), Math.min(box.width, left.right - box.left), row.height);
        context.clip();
        context.fillStyle = look.color;
        context.font = `${look.fontWeight} ${look.fontSize} ${look.fontFamily}`;
        context.fillText(text.textContent ?? '', box.left - left.left, box.top + box.height / 2 - right.top);
        context.restore();
    }
    return image;
}

/** Saves the picture as a PNG file. */
export function saveImage(app: App): void {
    const image = compose(app);
    const name = `${app.trace.name || 'trace'}.png`;
    const saved = new Promise<Blob>((done, failed) => {
        image.toBlob((blob) => (blob ? done(blob) : failed(new Error('The picture is too large to be saved'))), 'image/png');
    });
    void app.task(saved, (blob) => {
        save(blob, name, blob.type);
        app.say(`The picture is saved as ${name}`);
    });
}
